import { type ApiKey, createdApiKeySchema, problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Principal } from '@postern/local-stack/testing'
import type { Statement } from '@postern/tenant-db'
import {
  type KeysUnderTest,
  LeaseHolder,
  cancelWaiting,
  eventTypes,
  getKey,
  newKey,
  newTenant,
  path,
  revoke,
  sql,
  startKeys,
  whileLeased,
} from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const dayMs = 86_400_000
const inDays = (days: number) => new Date(Date.now() + days * dayMs).toISOString()

async function patch(admin: Principal, key: { id: string; etag: string }, body: unknown) {
  return await service.call(admin, 'PATCH', `${path}/${key.id}`, { body, headers: { 'if-match': key.etag } })
}

async function rotate(admin: Principal, id: string, body: unknown = {}) {
  return await service.call(admin, 'POST', `${path}/${id}/rotate`, { body })
}

/** Makes every call of the function fail. */
async function renameFunction(from: string, to: string): Promise<void> {
  await service.asSuperuser.system(
    async (tx) => void (await tx.execute(sql(`alter function keys.${from} rename to ${to}`))),
  )
}

describe('rotating is refused', () => {
  test('to people who are not administrators and for a missing key', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    expect((await rotate({ ...admin, roles: ['viewer'] }, id)).status).toBe(403)
    expect((await rotate(admin, crypto.randomUUID())).status).toBe(404)
    expect((await rotate(admin, id)).status).toBe(201)
  })

  test.each(['8d', '169h', '1w', '-1h', '01h', '', '1.5h'])('with an overlap of %j', async (overlap) => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const answer = await rotate(admin, id, { overlap })
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors).toMatchObject([{ pointer: '/overlap' }])
  })

  test('with 409 for revoked and expired keys, and no key is created', async () => {
    const admin = await newTenant(service)
    const revoked = await newKey(service, admin)
    await revoke(service, admin, revoked.id)
    const expired = await newKey(service, admin)
    await rotate(admin, expired.id, { overlap: '0s' })
    const count = async () => (await service.call(admin, 'GET', `${path}?count=true`)).headers['x-total-count']
    const before = await count()
    for (const { id } of [revoked, expired]) {
      expect((await rotate(admin, id)).json).toMatchObject({ status: 409, code: 'conflict' })
    }
    expect(await count()).toBe(before)
  })
})

describe('concurrent rotations', () => {
  test('of one key create one successor, and the others return 409 with its id', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const answers = await Promise.all(Array.from({ length: 6 }, async () => await rotate(admin, id)))
    const [made, ...more] = answers.filter(({ status }) => status === 201)
    const successor = createdApiKeySchema.parse(made?.json)
    expect(more).toEqual([])
    const refused = answers.filter(({ status }) => status === 409)
    expect(refused).toHaveLength(5)
    for (const { json } of refused) expect(problemSchema.parse(json).detail).toContain(successor.id)
    expect((await service.call(admin, 'GET', `${path}?count=true`)).headers['x-total-count']).toBe('2')
    // After revoking a successor whose value was lost, the key can be rotated again.
    expect((await rotate(admin, id)).status).toBe(409)
    await revoke(service, admin, successor.id)
    expect((await rotate(admin, id)).status).toBe(201)
  })

  test('and a revocation leave the old key revoked and at most one successor', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const [rotated] = await Promise.all([rotate(admin, id), revoke(service, admin, id), rotate(admin, id)])
    expect([201, 409]).toContain(rotated?.status)
    expect((await getKey(service, admin, id)).state).toBe('revoked')
    const count = (await service.call(admin, 'GET', `${path}?count=true`)).headers['x-total-count']
    expect(Number(count)).toBeLessThanOrEqual(2)
  })

  test('and a narrowing never give the successor more than the narrowed key', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin, { scopes: ['read:findings', 'read:universe'] })
    const [narrowed, rotated] = await Promise.all([
      patch(admin, key, { scopes: ['read:findings'] }),
      rotate(admin, key.id),
    ])
    // The rotation changes the key, so a later edit has an old ETag.
    expect([200, 412]).toContain(narrowed.status)
    const { scopes } = createdApiKeySchema.parse(rotated.json)
    if (narrowed.status === 412) expect(scopes).toEqual(['read:findings', 'read:universe'])
    else expect([['read:findings'], ['read:findings', 'read:universe']]).toContainEqual(scopes)
  })
})

const lifeOf = ({ created_at, expires_at }: ApiKey) => Date.parse(expires_at) - Date.parse(created_at)

describe('a rotated key', () => {
  test('has a successor with its label, scopes, addresses and original lifetime', async () => {
    const admin = await newTenant(service)
    const given = {
      label: 'x',
      scopes: ['write:*', 'admin:sync'],
      allowed_addresses: ['192.0.2.0/25'],
      expires_in: '30d',
    }
    const old = await newKey(service, admin, given)
    const answer = await rotate(admin, old.id)
    expect(answer.status).toBe(201)
    expect(answer.headers['cache-control']).toBe('no-store')
    const { key, ...successor } = createdApiKeySchema.parse(answer.json)
    expect(key).not.toBe(old.value)
    const { label, scopes, allowed_addresses } = given
    expect(successor).toMatchObject({ label, scopes, allowed_addresses, rotated_from: old.id, version: 1 })
    expect(lifeOf(successor)).toBe(30 * dayMs)
    const after = await getKey(service, admin, old.id)
    expect(after.state).toBe('active')
    expect(Date.parse(after.expires_at) - Date.parse(successor.created_at)).toBe(dayMs)
    expect(await eventTypes(service, admin, old.id)).toEqual(['rotated', 'created'])
    expect(await eventTypes(service, admin, successor.id)).toEqual(['created'])
  })

  test('passes on its original lifetime, not its remaining one', async () => {
    const admin = await newTenant(service)
    const first = await newKey(service, admin, { expires_in: '1y' })
    const narrowed = await patch(admin, first, { expires_at: inDays(3) })
    expect(narrowed.status).toBe(200)
    const second = createdApiKeySchema.parse((await rotate(admin, first.id)).json)
    expect(lifeOf(second)).toBe(365 * dayMs)
    expect(lifeOf(createdApiKeySchema.parse((await rotate(admin, second.id, { expires_in: '30d' })).json))).toBe(
      30 * dayMs,
    )
  })

  test('that expires before the overlap ends keeps its expiry', async () => {
    const admin = await newTenant(service)
    const expires_at = new Date(Date.now() + 3_600_000).toISOString()
    const old = await newKey(service, admin, { expires_in: 'custom', expires_at })
    await rotate(admin, old.id, { overlap: '7d' })
    expect((await getKey(service, admin, old.id)).expires_at).toBe(expires_at)
  })

  test('without an overlap has expired on every gateway when the response arrives', async () => {
    const admin = await newTenant(service)
    await whileLeased(async () => {
      const old = await newKey(service, admin)
      const gateway = await new LeaseHolder(service.ask).take()
      let isAnswered = false
      const answer = rotate(admin, old.id, { overlap: '0s' }).finally(() => {
        isAnswered = true
      })
      try {
        await expect
          .poll(async () => (await gateway.renew()).revocations, { interval: 2 })
          .toMatchObject([{ hash: old.hash }])
        expect(isAnswered).toBe(false)
        await gateway.renew()
        expect((await answer).status).toBe(201)
      } finally {
        await gateway.release()
        await answer
      }
      expect(await getKey(service, admin, old.id)).toMatchObject({ state: 'expired' })
    })
  })

  test('without an overlap returns after all earlier leases have ended if the database fails', async () => {
    const admin = await newTenant(service)
    await whileLeased(async () => {
      const old = await newKey(service, admin)
      const gateway = await new LeaseHolder(service.ask).take()
      await renameFunction('last_key_change(bytea)', 'gone')
      try {
        expect((await rotate(admin, old.id, { overlap: '0s' })).status).toBe(201)
        const left = await service.asSuperuser.system(async (tx) => {
          const text = 'select from keys.gateway_lease where lease_until > clock_timestamp()'
          return await tx.query({ text, values: [] })
        })
        expect(left).toEqual([])
      } finally {
        await renameFunction('gone(bytea)', 'last_key_change')
        await gateway.release()
      }
    })
  })
})

/** Runs `work` while other transactions wait for the rows that the statement locks. */
async function whileLocked<T>(keys: KeysUnderTest, statement: Statement, work: () => Promise<T>): Promise<T> {
  const isLocked = Promise.withResolvers<void>()
  const mayEnd = Promise.withResolvers<void>()
  const lock = keys.asSuperuser.system(async (tx) => {
    await tx.execute(statement)
    isLocked.resolve()
    await mayEnd.promise
  })
  await isLocked.promise
  try {
    return await work()
  } finally {
    mayEnd.resolve()
    await lock
  }
}

// The commit of a key change needs this lock.
const endOfLog = sql('select from keys.revocation_seq for update')

describe('a rotation that fails', () => {
  test('says so if nothing was written, and can be repeated', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const answer = await whileLocked(service, endOfLog, async () => {
      const rotated = rotate(admin, id)
      await cancelWaiting(service)
      return await rotated
    })
    expect(answer.json).toMatchObject({ status: 503, code: 'service_unavailable' })
    expect((await service.call(admin, 'GET', path)).json).toMatchObject([{ id, version: 1 }])
    expect((await rotate(admin, id)).status).toBe(201)
  })

  describe('with the connection to PostgreSQL', () => {
    let keys: KeysUnderTest
    beforeAll(async () => {
      keys = await startKeys()
    })
    afterAll(async () => await keys.close())

    /** Rotates a key while the lock is held, and terminates the PostgreSQL connection that waits for it. */
    async function breakOff(admin: Principal, id: string, lock: Statement, headers: Record<string, string> = {}) {
      return await whileLocked(keys, lock, async () => {
        const answer = keys.call(admin, 'POST', `${path}/${id}/rotate`, { body: {}, headers })
        const end = sql(`
          select pg_terminate_backend(a.pid)
            from pg_stat_activity as a
           where a.datname = current_database() and a.application_name = 'postern-keys' and a.wait_event_type = 'Lock'`)
        const ended = async () => await keys.asSuperuser.system(async (tx) => await tx.query(end))
        await expect.poll(async () => (await ended()).length).toBe(1)
        return await answer
      })
    }

    test('before its commit writes nothing', async () => {
      const admin = await newTenant(keys)
      const { id } = await newKey(keys, admin)
      const lock = sql('select from keys.api_key as k where k.id = $1 for update', id)
      const answer = await breakOff(admin, id, lock)
      expect(answer.json).toMatchObject({ status: 503, code: 'service_unavailable' })
    })

    test('during its commit explains how to find a new key, and does not advise to repeat the request', async () => {
      const admin = await newTenant(keys)
      const { id } = await newKey(keys, admin)
      const answer = await breakOff(admin, id, endOfLog)
      expect(answer.json).toMatchObject({
        status: 503,
        code: 'revocation_unconfirmed',
        detail: expect.stringContaining('`rotated_from`'),
      })
      expect(answer.text).not.toContain('safe')
      expect(answer.headers['retry-after']).toBeUndefined()
    })

    test('during its commit advises to repeat the request if it has an Idempotency-Key', async () => {
      const admin = await newTenant(keys)
      const { id } = await newKey(keys, admin)
      const headers = { 'idempotency-key': crypto.randomUUID() }
      const answer = await breakOff(admin, id, endOfLog, headers)
      expect(answer.json).toMatchObject({ status: 503, code: 'revocation_unconfirmed' })
      expect(answer.text).toContain('Repeat the request with the same Idempotency-Key. This is safe')
      expect(answer.headers['retry-after']).toBe('1')
      const repeated = await keys.call(admin, 'POST', `${path}/${id}/rotate`, { body: {}, headers })
      expect(repeated.json).toMatchObject({ rotated_from: id })
    })
  })
})
