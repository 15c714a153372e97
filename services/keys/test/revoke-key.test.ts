import { generateKey } from '@postern/api-key'
import { enforcementSchema, revokedApiKeySchema } from '@postern/contracts'
import { internalPaths, leaseMs } from '@postern/contracts/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type KeysUnderTest,
  LeaseHolder,
  cancelWaiting,
  during,
  eventTypes,
  getKey,
  lookUp,
  newKey,
  newTenant,
  path,
  revoke,
  sql,
  startKeys,
  retryWhileUnconfirmed,
  whileLeased,
} from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

/** The number of unconfirmed narrowings in the metrics. */
async function unconfirmed(): Promise<number> {
  const text = await (await fetch(`${service.url}/internal/metrics`)).text()
  const series =
    /^postern_keys_enforcement_seconds_count\{(?=[^}]*kind="key")(?=[^}]*outcome="unconfirmed")[^}]*\} (\d+)$/m
  return Number(series.exec(text)?.[1])
}

describe('revoking is refused', () => {
  test('without a valid signature, and the key stays active', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    const answer = await service.stranger.call(admin, 'POST', `${path}/${key.id}/revoke`, { body: {} })
    expect(answer.status).toBe(401)
    expect(await getKey(service, admin, key.id)).toMatchObject({ state: 'active' })
  })

  test('for API keys and for people who are not administrators', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    for (const other of [
      { ...admin, roles: ['auditor'] },
      { tenantId: admin.tenantId, kind: 'api_key', scopes: ['admin:sync'] },
    ] as const) {
      expect((await service.call(other, 'POST', `${path}/${key.id}/revoke`, { body: {} })).status).toBe(403)
    }
    expect(await getKey(service, admin, key.id)).toMatchObject({ state: 'active' })
  })

  test('for a missing key and an invalid id', async () => {
    const admin = await newTenant(service)
    expect((await revoke(service, admin, crypto.randomUUID())).status).toBe(404)
    expect((await revoke(service, admin, 'one')).status).toBe(404)
  })

  test.each([
    { reason: '' },
    { reason: 'x'.repeat(501) },
    { reason: 'two\nlines' },
    { reason: `${generateKey().value} was leaked` },
    { because: 'x' },
  ])('with an invalid reason (%#)', async (body) => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    expect((await revoke(service, admin, id, body)).status).toBe(422)
    expect(await getKey(service, admin, id)).toMatchObject({ state: 'active' })
  })
})

describe('a revoked key', () => {
  test('has a time, an author and a reason, also in the audit trail', async () => {
    const admin = await newTenant(service)
    const { id, hash } = await newKey(service, admin)
    const answer = await revoke(service, admin, id, { reason: 'Found in a public repository' })
    expect(answer.status).toBe(200)
    expect(revokedApiKeySchema.parse(answer.json)).toMatchObject({
      state: 'revoked',
      revoked_by: { type: 'user', id: 'ada', label: 'Ada Lund' },
      revoke_reason: 'Found in a public repository',
      version: 2,
      enforcement: { gateways: 0, confirmed: 0, fenced: 0 },
    })
    expect(await eventTypes(service, admin, id)).toEqual(['revoked', 'created'])
    expect((await lookUp(service, hash)).record).toMatchObject({ revoked: true, version: 2 })
  })

  test('is revoked without a body and without a reason as well', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const answer = await service.call(admin, 'POST', `${path}/${id}/revoke`)
    expect(answer.status).toBe(200)
    expect(answer.json).toMatchObject({ state: 'revoked', revoke_reason: null })
  })

  test('returns the first result to every later revoke, with one event', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const [first, second] = [
      await revoke(service, admin, id, { reason: 'first' }),
      await revoke(service, { ...admin, id: 'eve' }, id, { reason: 'second' }),
    ].map(({ json }) => ({ ...revokedApiKeySchema.parse(json), enforcement: null }))
    expect(second).toEqual(first)
    expect(await eventTypes(service, admin, id)).toEqual(['revoked', 'created'])
  })

  test('is revoked once by 20 concurrent requests', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const answers = await Promise.all(Array.from({ length: 20 }, async () => await revoke(service, admin, id)))
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    expect(new Set(answers.map(({ json }) => revokedApiKeySchema.parse(json).revoked_at)).size).toBe(1)
    expect(await eventTypes(service, admin, id)).toEqual(['revoked', 'created'])
  })

  test('that had expired is revoked, not expired', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    // Simulates an expired key: a short lifetime could end before the key is created.
    const expire = sql('update keys.api_key set expires_at = created_at where id = $1', id)
    await service.asSuperuser.system(async (tx) => await tx.execute(expire))
    expect(await getKey(service, admin, id)).toMatchObject({ state: 'expired' })
    expect((await revoke(service, admin, id)).json).toMatchObject({ state: 'revoked' })
    expect(await getKey(service, admin, id)).toMatchObject({ state: 'revoked' })
  })
})

describe('a revoke answers', () => {
  test('only after every gateway with a lease has confirmed', async () => {
    const admin = await newTenant(service)
    await whileLeased(async () => {
      const { id } = await newKey(service, admin)
      const gateways = await Promise.all([1, 2, 3].map(async () => await new LeaseHolder(service.ask).take()))
      let isAnswered = false
      const answer = revoke(service, admin, id).finally(() => {
        isAnswered = true
      })
      try {
        // Two of three catch up. Each confirms with the renewal after the one that delivered the entry.
        for (const gateway of gateways.slice(0, 2)) {
          await expect.poll(async () => (await gateway.renew()).revocations.length, { interval: 2 }).toBeGreaterThan(0)
          expect((await gateway.renew()).granted).toBe(true)
          expect(isAnswered).toBe(false)
        }
        await gateways[2]?.renew()
        await gateways[2]?.renew()
        expect((await answer).enforcement).toMatchObject({ gateways: 3, confirmed: 3, fenced: 0 })
      } finally {
        await Promise.all(gateways.map(async (gateway) => await gateway.release()))
        await answer
      }
    })
  })

  test('when the lease of a silent gateway has ended, and reports it as fenced', async () => {
    const admin = await newTenant(service)
    const { status, enforcement } = await retryWhileUnconfirmed(async () => {
      const { id } = await newKey(service, admin)
      const [silent, lively] = [await new LeaseHolder(service.ask).take(), await new LeaseHolder(service.ask).take()]
      const answer = revoke(service, admin, id)
      await expect.poll(async () => (await lively.renew()).revocations.length, { interval: 2 }).toBeGreaterThan(0)
      await lively.renew()
      const told = await answer
      expect((await silent.renew()).granted).toBe(false)
      await Promise.all([silent.release(), lively.release()])
      return told
    })
    expect(status).toBe(200)
    expect(enforcement).toMatchObject({ gateways: 2, confirmed: 1, fenced: 1 })
    // The time until it notices depends on the machine.
    expect(enforcementSchema.parse(enforcement).waited_ms).toBeLessThan(leaseMs + 60_000)
  })

  test('when a gateway keeps renewing but never catches up, because it gets no new lease', async () => {
    const admin = await newTenant(service)
    const { enforcement } = await retryWhileUnconfirmed(async () => {
      const { id } = await newKey(service, admin)
      const laggard = await new LeaseHolder(service.ask).take()
      const answer = revoke(service, admin, id)
      const told = async () => (await laggard.renew({ apply: false })).revocations.length
      await expect.poll(told, { interval: 2 }).toBeGreaterThan(0)
      const enforced = await during(answer, async () => {
        expect((await laggard.renew({ apply: false })).granted).toBe(false)
      })
      await laggard.release()
      return enforced
    })
    expect(enforcement).toMatchObject({ gateways: 1, confirmed: 0, fenced: 1 })
  })

  test.each([
    ['forward, so that every lease seems over', "- interval '1 hour'", { confirmed: 1, fenced: 0 }],
    ['back, so that the lease of a dead gateway seems to run', "+ interval '1 hour'", { confirmed: 0, fenced: 1 }],
  ])('even if the clock of PostgreSQL is set %s', async (_which, shift, counts) => {
    const admin = await newTenant(service)
    await whileLeased(async () => {
      const { status, enforcement } = await retryWhileUnconfirmed(async () => {
        const { id } = await newKey(service, admin)
        const gateway = await new LeaseHolder(service.ask).take()
        const set = sql(
          `update keys.gateway_lease set lease_until = lease_until ${shift} where gateway = $1`,
          gateway.gateway,
        )
        await service.asSuperuser.system(async (tx) => await tx.execute(set))
        let isAnswered = false
        const answer = revoke(service, admin, id).finally(() => {
          isAnswered = true
        })
        try {
          if (counts.confirmed > 0) {
            await expect
              .poll(async () => (await gateway.renew({ apply: false })).revocations.length, { interval: 2 })
              .toBeGreaterThan(0)
            expect(isAnswered).toBe(false)
            await gateway.renew()
            await gateway.renew()
          }
          return await answer
        } finally {
          await answer
          await service.asSuperuser.system(async (tx) => await tx.execute(sql('delete from keys.gateway_lease')))
        }
      })
      expect(status).toBe(200)
      expect(enforcement).toMatchObject({ gateways: 1, ...counts })
    })
  })

  test('503 if the database rejects the commit, and a repeated request succeeds', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const before = await unconfirmed()
    const isLocked = Promise.withResolvers<void>()
    const mayEnd = Promise.withResolvers<void>()
    const lock = service.asSuperuser.system(async (tx) => {
      await tx.execute(sql('select from keys.revocation_seq for update'))
      isLocked.resolve()
      await mayEnd.promise
    })
    await isLocked.promise
    const revoked = revoke(service, admin, id)
    await cancelWaiting(service)
    const answer = await revoked
    mayEnd.resolve()
    await lock
    expect(answer.json).toMatchObject({ status: 503, code: 'revocation_unconfirmed' })
    expect(await unconfirmed()).toBe(before + 1)
    expect(await getKey(service, admin, id)).toMatchObject({ state: 'active', version: 1 })
    expect(await eventTypes(service, admin, id)).toEqual(['created'])
    expect((await revoke(service, admin, id)).status).toBe(200)
  })

  test('when gateways confirm to another replica', async () => {
    const admin = await newTenant(service)
    const replica = await service.startReplica()
    await whileLeased(async () => {
      const { id } = await newKey(service, admin)
      const gateway = await new LeaseHolder(replica).take()
      const answer = revoke(service, admin, id)
      await expect.poll(async () => (await gateway.renew()).revocations.length, { interval: 2 }).toBeGreaterThan(0)
      await gateway.renew()
      const { enforcement } = await answer
      await gateway.release()
      expect(enforcement).toMatchObject({ gateways: 1, confirmed: 1, fenced: 0 })
    })
  })

  test('for 50 keys at once, each when it is enforced', async () => {
    const admin = await newTenant(service)
    const keys = await Promise.all(Array.from({ length: 50 }, async () => await newKey(service, admin)))
    const gateway = await new LeaseHolder(service.ask).take()
    const answers = Promise.all(
      keys.map(async ({ id, hash }) => {
        const { enforcement } = await revoke(service, admin, id)
        return { hash, cursor: gateway.cursor ?? -1, enforcement }
      }),
    )
    const told = new Map<string, number>()
    const settled = await during(answers, async () => {
      for (const entry of (await gateway.renew()).revocations) if (entry.kind === 'key') told.set(entry.hash, entry.seq)
    })
    for (const { hash, cursor, enforcement } of settled) {
      expect(enforcement).toMatchObject({ gateways: 1, confirmed: 1 })
      expect(told.get(hash)).toBeLessThanOrEqual(cursor)
    }
    await gateway.release()
  })

  test('without waiting if the log has already deleted the entry', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    await revoke(service, admin, id)
    await service.asSuperuser.system(async (tx) => await tx.execute(sql('delete from keys.revocation')))
    expect(await revoke(service, admin, id)).toMatchObject({ status: 200, enforcement: null })
  })
})

test('every narrowing is logged with the ids needed to repeat it after a restore', async () => {
  const admin = await newTenant(service)
  const [revoked, narrowed, rotated] = [
    await newKey(service, admin),
    await newKey(service, admin),
    await newKey(service, admin),
  ]
  await revoke(service, admin, revoked.id)
  const { headers } = await service.call(admin, 'GET', `${path}/${narrowed.id}`)
  const change = await service.call(admin, 'PATCH', `${path}/${narrowed.id}`, {
    body: { allowed_addresses: ['192.0.2.0/24'] },
    headers: { 'content-type': 'application/merge-patch+json', 'if-match': String(headers['etag']) },
  })
  expect(change.status, change.text).toBe(200)
  await service.call(admin, 'POST', `${path}/${rotated.id}/rotate`, { body: {} })
  const logged = service.log.filter((line) => /"event":"key_(?:revoked|narrowed|rotated)"/.test(line))
  expect(
    logged.map((line): unknown => JSON.parse(line)).filter((line) => Object(line).tenant_id === admin.tenantId),
  ).toMatchObject([
    { level: 'info', event: 'key_revoked', key_id: revoked.id },
    { level: 'info', event: 'key_narrowed', key_id: narrowed.id },
    { level: 'info', event: 'key_rotated', key_id: rotated.id },
  ])
})

test('a change that narrows nothing is not logged for repetition after a restore', async () => {
  const admin = await newTenant(service)
  const [untouched, narrowed] = [await newKey(service, admin), await newKey(service, admin)]
  const change = async (id: string, body: object) => {
    const headers = { 'content-type': 'application/merge-patch+json', 'if-match': '*' }
    const answer = await service.call(admin, 'PATCH', `${path}/${id}`, { body, headers })
    expect(answer.status, answer.text).toBe(200)
    return Object(answer.json)
  }
  const { json } = await service.call(admin, 'GET', `${path}/${untouched.id}`)
  const { scopes, label } = Object(json)
  await change(untouched.id, { scopes })
  await change(untouched.id, { label: `${label} 2` })
  await change(untouched.id, { label: `${label} 2` })
  await change(narrowed.id, { allowed_addresses: ['192.0.2.0/24'] })
  await change(narrowed.id, { label: 'another' })
  const isOfTenant = (line: string) => line.includes('"event":"key_narrowed"') && line.includes(admin.tenantId)
  expect(service.log.filter(isOfTenant)).toMatchObject([expect.stringContaining(narrowed.id)])
  // Repeated without a response to the first request, which may be committed but not logged.
  await change(narrowed.id, { allowed_addresses: ['192.0.2.0/24'] })
  expect(service.log.filter(isOfTenant)).toMatchObject(Array(2).fill(expect.stringContaining(narrowed.id)))
})

test('a gateway that stops releases its lease, and no revoke waits for it', async () => {
  const admin = await newTenant(service)
  const { id } = await newKey(service, admin)
  const gateway = await new LeaseHolder(service.ask).take()
  expect((await service.ask(internalPaths.releaseLease, { gateway: gateway.gateway })).status).toBe(204)
  expect((await revoke(service, admin, id)).enforcement).toMatchObject({ gateways: 0 })
})
