import {
  bulkPreviewSchema,
  bulkReceiptSchema,
  createdApiKeySchema,
  maxBulkKeys,
  problemSchema,
} from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { CallAnswer, Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type KeysUnderTest,
  LeaseHolder,
  during,
  eventTypes,
  getKey,
  lookUp,
  newKey,
  newTenant,
  path,
  retryWhileUnconfirmed,
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

const preview = async (admin: Principal, body: object) =>
  await service.call(admin, 'POST', `${path}/bulk/preview`, { body })

const change = async (admin: Principal, body: object) => await service.call(admin, 'POST', `${path}/bulk`, { body })

async function previewed(admin: Principal, body: object) {
  const answer = await preview(admin, body)
  expect(answer.status, answer.text).toBe(200)
  return bulkPreviewSchema.parse(answer.json)
}

async function changed(admin: Principal, body: object) {
  const answer = await change(admin, body)
  expect(answer.status, answer.text).toBe(200)
  return bulkReceiptSchema.parse(answer.json)
}

const errorsOf = ({ json }: CallAnswer) => problemSchema.parse(json).errors
const shapeOf = (answer: CallAnswer) => ({ status: answer.status, errors: errorsOf(answer) })
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

async function someKeys(admin: Principal, count: number, given: object = {}) {
  const keys = await Promise.all(Array.from({ length: count }, async () => await newKey(service, admin, given)))
  return { keys, ids: keys.map(({ id }) => id) }
}

/** Inserts keys faster than the API creates them. */
async function insertKeys({ tenantId }: Principal, count: number): Promise<string[]> {
  const insert = sql(
    `insert into keys.api_key (tenant_id, hash, last_four, label, scopes, allowed_addresses, created_by_type,
                               created_by_id, created_by_label, created_at, expires_at)
     select $1::uuid, sha256(convert_to($1::uuid::text || n, 'UTF8')), 'abcd', 'Key ' || n, array['read:findings'], '{}', 'user', 'ada',
            'Ada Lund', date_trunc('milliseconds', clock_timestamp()), date_trunc('milliseconds', clock_timestamp()) + interval '30 days'
       from generate_series(1, $2::int4) as n
     returning id`,
    tenantId,
    count,
  )
  const rows = await service.asSuperuser.system(async (tx) => await tx.query<{ id: string }>(insert))
  return rows.map(({ id }) => id)
}

/** Rotates a key whose overlap begins with the first use of the new one, and returns the id of that. */
async function rotateAtFirstUse(admin: Principal, id: string): Promise<string> {
  const body = { overlap: '2h', overlap_from: 'first_use' }
  const answer = await service.call(admin, 'POST', `${path}/${id}/rotate`, { body })
  expect(answer.status, answer.text).toBe(201)
  return createdApiKeySchema.parse(answer.json).id
}

async function useKey({ tenantId }: Principal, keyId: string): Promise<void> {
  const used = { keyId, tenantId, address: '203.0.113.7', lastUsedAt: Date.now(), count: 1 }
  const uses = [{ ...used, routes: { 'findings.list': 1 } }]
  expect((await service.ask(internalPaths.usage, { uses, denials: [] })).status).toBe(204)
}

async function untilOverlapStarted(admin: Principal, id: string): Promise<void> {
  await expect
    .poll(async () => (await getKey(service, admin, id)).pending_overlap, { timeout: 60_000, interval: 200 })
    .toBeNull()
}

async function limitKeys(admin: Principal, most: number): Promise<void> {
  const headers = { 'if-match': '*' }
  const answer = await service.call(admin, 'PATCH', '/api/v1/key-policy', { body: { most_keys: most }, headers })
  expect(answer.status, answer.text).toBe(200)
}

/** Returns the status of the answer. */
async function createOneMore(admin: Principal): Promise<number> {
  const body = { label: 'One more', expires_in: '30d', scopes: ['read:findings'] }
  return (await service.call(admin, 'POST', path, { body })).status
}

describe('a change of several keys is refused', () => {
  test('for people who are not administrators', async () => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 2)
    const { version } = await previewed(admin, { ids })
    const auditor = { ...admin, roles: ['auditor'] } as const
    expect((await preview(auditor, { ids })).status).toBe(403)
    expect((await change(auditor, { action: 'revoke', ids, version })).status).toBe(403)
    await changed(admin, { action: 'revoke', ids, version })
  })

  test('if one key changed after the preview, and then no key changes', async () => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 3)
    const [first = '', second = '', third = ''] = ids
    const { version } = await previewed(admin, { ids })
    await revoke(service, admin, second)
    const answer = await change(admin, { action: 'revoke', ids, version })
    expect(answer.json).toMatchObject({ status: 412, code: 'precondition_failed' })
    for (const id of [first, third]) expect(await getKey(service, admin, id)).toMatchObject({ state: 'active' })
    const again = await previewed(admin, { ids })
    expect((await changed(admin, { action: 'revoke', ids, version: again.version })).changed).toBe(2)
  })

  test.each([
    ['relabel', { label: 'Old' }],
    ['reassign', { owner: { type: 'team', name: 'SOC', contact: 'soc@harbourline.example' } }],
    ['shorten', { expires_at: inDays(1) }],
  ])('%s, if one of them is revoked', async (action, wanted) => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 2)
    await revoke(service, admin, ids[1] ?? '')
    const { version } = await previewed(admin, { ids })
    const answer = await change(admin, { action, ids, version, ...wanted })
    expect(answer.status).toBe(409)
    expect(errorsOf(answer)).toMatchObject([{ pointer: '/ids/1', code: 'revoked' }])
    expect(await getKey(service, admin, ids[0] ?? '')).toMatchObject({ version: 1 })
  })

  test('for keys of another tenant, with the answer for unknown ids', async () => {
    const [admin, other] = [await newTenant(service), await newTenant(service)]
    const own = await newKey(service, admin)
    const foreign = await newKey(service, other)
    const { version } = await previewed(admin, { ids: [own.id] })
    const errors = [{ pointer: '/ids/1', code: 'unknown_key', detail: 'must be the id of a key of this tenant' }]
    for (const id of [foreign.id, crypto.randomUUID()]) {
      const ids = [own.id, id]
      expect(shapeOf(await preview(admin, { ids }))).toEqual({ status: 422, errors })
      expect(shapeOf(await change(admin, { action: 'revoke', ids, version }))).toEqual({ status: 422, errors })
    }
    expect(await getKey(service, other, foreign.id)).toMatchObject({ state: 'active' })
    expect(await getKey(service, admin, own.id)).toMatchObject({ state: 'active' })
  })

  test.each([
    { action: 'revoke' },
    { action: 'revoke', ids: [] },
    { action: 'revoke', expires_at: inDays(1) },
    { action: 'revoke', reason: `postern_${'0'.repeat(49)} was leaked` },
    { action: 'shorten' },
    { action: 'shorten', expires_at: '2020-01-01T00:00:00Z' },
    { action: 'reassign', owner: { type: 'person', id: 'nobody' } },
    { action: 'relabel', label: '' },
    { action: 'delete' },
  ])('with invalid content (%#)', async (body) => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 1)
    const { version } = await previewed(admin, { ids })
    const isWhole = 'expires_at' in body || 'reason' in body || 'owner' in body || 'label' in body
    const answer = await change(admin, { ...(isWhole ? { ids, version } : {}), ...body })
    expect(answer.status).toBe(422)
    expect(await getKey(service, admin, ids[0] ?? '')).toMatchObject({ version: 1 })
  })

  test('for more keys than one call takes, and for a filter without a condition', async () => {
    const admin = await newTenant(service)
    const ids = await insertKeys(admin, maxBulkKeys + 1)
    expect((await preview(admin, { ids })).status).toBe(422)
    const answer = await preview(admin, { filter: { state: ['active'] } })
    expect(answer.status).toBe(422)
    expect(errorsOf(answer)).toMatchObject([{ pointer: '/filter', code: 'too_many' }])
    expect((await preview(admin, { filter: {} })).status).toBe(422)
    expect((await previewed(admin, { filter: { label: 'Key 10' } })).keys.length).toBe(13)
  })
})

test('a preview shows which of a leaver’s keys were used, and from where', async () => {
  const admin = await newTenant(service)
  const { tenantId } = admin
  const people = [{ tenantId, id: 'kofi', name: 'Kofi Mensah', roles: [], lastSeenAt: Date.now() }]
  await service.ask(internalPaths.usage, { uses: [], denials: [], people })
  const { ids } = await someKeys(admin, 3, { owner: { type: 'person', id: 'kofi' } })
  await newKey(service, admin)
  const [used = ''] = ids
  const use = { tenantId, keyId: used, address: '203.0.113.7', lastUsedAt: Date.now(), count: 1 }
  await service.ask(internalPaths.usage, { uses: [{ ...use, routes: { 'findings.list': 1 } }], denials: [] })
  const shown = await previewed(admin, { filter: { owner: 'kofi', state: ['active'] } })
  expect(shown).toMatchObject({ active: 3, used_last_day: 1 })
  expect(shown.keys.map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
  expect(shown.keys.filter(({ used_last_day: isUsed }) => isUsed)).toMatchObject([
    { id: used, recent_addresses: ['203.0.113.7'] },
  ])
  const receipt = await changed(admin, { action: 'revoke', ids, version: shown.version, reason: 'Left the company' })
  expect(receipt.changed).toBe(3)
  expect((await previewed(admin, { filter: { owner: 'kofi', state: ['active'] } })).keys).toEqual([])
})

describe('several keys at once', () => {
  test('are revoked with one receipt, an event each, and the same answer to a repeated request', async () => {
    const admin = await newTenant(service)
    const { keys, ids } = await someKeys(admin, 3)
    const { version } = await previewed(admin, { ids })
    const body = { action: 'revoke', ids, version, reason: 'Left the company' }
    const receipt = await changed(admin, body)
    expect(receipt).toMatchObject({ action: 'revoke', changed: 3, enforcement: { gateways: 0 } })
    for (const { id, hash } of keys) {
      const shown = await getKey(service, admin, id)
      expect(shown).toMatchObject({ state: 'revoked', revoke_reason: 'Left the company', version: 2 })
      expect(await eventTypes(service, admin, id)).toEqual(['revoked', 'created'])
      expect((await lookUp(service, hash)).record).toMatchObject({ revoked: true })
      const stated = receipt.keys.find((each) => each.id === id)
      expect(stated).toMatchObject({ changed: true, state: 'revoked' })
      expect(Date.parse(stated?.enforced_at ?? '')).toBeGreaterThanOrEqual(Date.parse(shown.revoked_at ?? ''))
    }
    expect(receipt.keys.map(({ id }) => id)).toEqual(ids)
    const again = await changed(admin, body)
    expect(again).toMatchObject({ changed: 0 })
    expect(again.keys.every((key) => !key.changed && key.enforced_at !== null)).toBe(true)
    expect(await eventTypes(service, admin, ids[0] ?? '')).toEqual(['revoked', 'created'])
    const logged = service.log.filter((line) => line.includes('"event":"key_revoked"') && line.includes(receipt.id))
    expect(logged.length).toBe(3)
  })

  test('expire at the new time, except those that expire earlier', async () => {
    const admin = await newTenant(service)
    const [late, early] = [await newKey(service, admin), await newKey(service, admin, { expires_in: '30d' })]
    const ids = [late.id, early.id]
    const { version } = await previewed(admin, { ids })
    const expiresAt = inDays(60)
    const receipt = await changed(admin, { action: 'shorten', ids, version, expires_at: expiresAt })
    expect(receipt.keys).toMatchObject([
      { id: late.id, changed: true, expires_at: expiresAt },
      { id: early.id, changed: false, expires_at: early.expires_at },
    ])
    expect(receipt.keys.every(({ enforced_at: at }) => at !== null)).toBe(true)
  })

  test('that have expired in the meantime are returned by the repeated change', async () => {
    const admin = await newTenant(service)
    const [key, active] = [await newKey(service, admin), await newKey(service, admin)]
    const passed = new Date(Date.now() - 1000).toISOString()
    const text = 'update keys.api_key set created_at = created_at - $2::interval, expires_at = $3 where id = $1'
    await service.asSuperuser.system(async (tx) => {
      await tx.execute(sql("set local session_replication_role = 'replica'"))
      await tx.execute(sql(text, key.id, '1 day', passed))
    })
    const shorten = async (ids: readonly string[]) => {
      const { version } = await previewed(admin, { ids })
      return await change(admin, { action: 'shorten', ids, version, expires_at: passed })
    }
    expect((await shorten([key.id, active.id])).status).toBe(422)
    const repeated = await shorten([key.id])
    expect(repeated).toMatchObject({ status: 200, json: { changed: 0, keys: [{ id: key.id, state: 'expired' }] } })
  })

  test('get another owner and another label', async () => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 2)
    const owner = { type: 'team', name: 'SOC', contact: 'soc@harbourline.example' }
    const { version } = await previewed(admin, { ids })
    const receipt = await changed(admin, { action: 'reassign', ids, version, owner })
    expect(receipt).toMatchObject({
      changed: 2,
      enforcement: null,
      keys: [{ enforced_at: null }, { enforced_at: null }],
    })
    const next = await previewed(admin, { ids })
    expect(next.version).not.toBe(version)
    await changed(admin, { action: 'relabel', ids, version: next.version, label: 'Reporting' })
    for (const id of ids) expect(await getKey(service, admin, id)).toMatchObject({ owner, label: 'Reporting' })
  })

  test('are revoked once by concurrent requests, whatever the order of their ids', async () => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 20)
    const { version } = await previewed(admin, { ids })
    const orders = [ids, ids.toReversed(), ids.toSorted(), ids.toSorted().toReversed()]
    const answers = await Promise.all([
      ...orders.map(async (order) => await change(admin, { action: 'revoke', ids: order, version })),
      ...ids.slice(0, 2).map(async (id) => await revoke(service, admin, id)),
    ])
    expect(answers.filter(({ status }) => status !== 200 && status !== 412)).toEqual([])
    const left = await previewed(admin, { ids })
    await changed(admin, { action: 'revoke', ids, version: left.version })
    for (const id of ids) expect(await eventTypes(service, admin, id)).toEqual(['revoked', 'created'])
  })
})

describe('keys whose overlap waits for the first use of the new key', () => {
  test('are refused if the overlap began after the preview, and then none changes', async () => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 2)
    const [old = '', other = ''] = ids
    const successor = await rotateAtFirstUse(admin, old)
    const { version } = await previewed(admin, { ids })
    await useKey(admin, successor)
    await untilOverlapStarted(admin, old)
    const answer = await change(admin, { action: 'revoke', ids, version })
    expect(answer.json).toMatchObject({ status: 412, code: 'precondition_failed' })
    for (const id of [old, other]) expect(await getKey(service, admin, id)).toMatchObject({ state: 'active' })
    const again = await previewed(admin, { ids })
    expect((await changed(admin, { action: 'revoke', ids, version: again.version })).changed).toBe(2)
  })

  test('expire at the new time, even if the new key is first used later', async () => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 2)
    const successors = await Promise.all(ids.map(async (id) => await rotateAtFirstUse(admin, id)))
    const [soon, late] = [new Date(Date.now() + 3_600_000).toISOString(), inDays(1)]
    for (const [at, id] of ids.entries()) {
      const { version } = await previewed(admin, { ids: [id] })
      await changed(admin, { action: 'shorten', ids: [id], version, expires_at: at === 0 ? soon : late })
      expect(await getKey(service, admin, id)).toMatchObject({ pending_overlap: '2h' })
    }
    for (const id of successors) await useKey(admin, id)
    for (const id of ids) await untilOverlapStarted(admin, id)
    const [first = '', second = ''] = ids
    expect((await getKey(service, admin, first)).expires_at).toBe(soon)
    expect(Date.parse((await getKey(service, admin, second)).expires_at)).toBeLessThan(Date.parse(late))
  })

  test('keep their overlap when they get another owner and label', async () => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 2)
    const successors = await Promise.all(ids.map(async (id) => await rotateAtFirstUse(admin, id)))
    const { version } = await previewed(admin, { ids })
    await changed(admin, { action: 'relabel', ids, version, label: 'Old export' })
    for (const id of ids) {
      expect(await getKey(service, admin, id)).toMatchObject({ label: 'Old export', pending_overlap: '2h' })
    }
    for (const id of successors) expect((await getKey(service, admin, id)).label).not.toBe('Old export')
  })

  test('work on when the new keys are revoked, and end for good when they are revoked themselves', async () => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 2)
    const before = await getKey(service, admin, ids[0] ?? '')
    const successors = await Promise.all(ids.map(async (id) => await rotateAtFirstUse(admin, id)))
    const shown = await previewed(admin, { ids: successors })
    await changed(admin, { action: 'revoke', ids: successors, version: shown.version })
    expect(await getKey(service, admin, before.id)).toMatchObject({
      state: 'active',
      expires_at: before.expires_at,
      pending_overlap: null,
    })
    const next = await Promise.all(ids.map(async (id) => await rotateAtFirstUse(admin, id)))
    const { version } = await previewed(admin, { ids })
    await changed(admin, { action: 'revoke', ids, version })
    for (const id of next) await useKey(admin, id)
    for (const id of ids) expect(await getKey(service, admin, id)).toMatchObject({ state: 'revoked', version: 2 })
    for (const id of next) expect((await getKey(service, admin, id)).state).toBe('active')
  })
})

describe('with a limit of the number of keys', () => {
  test('a tenant at or beyond the limit can relabel, reassign and shorten several keys', async () => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 3)
    const owner = { type: 'team', name: 'SOC', contact: 'soc@harbourline.example' }
    for (const most of [3, 1]) {
      await limitKeys(admin, most)
      for (const [action, given] of [
        ['relabel', { label: `At ${most}` }],
        ['reassign', { owner: { ...owner, name: `SOC ${most}` } }],
        ['shorten', { expires_at: inDays(most) }],
      ] as const) {
        const { version } = await previewed(admin, { ids })
        expect((await changed(admin, { action, ids, version, ...given })).changed, action).toBe(3)
      }
      expect(await createOneMore(admin)).toBe(409)
    }
  })

  test('several revoked keys make room for as many new ones, also for concurrent requests', async () => {
    const admin = await newTenant(service)
    const { ids } = await someKeys(admin, 4)
    await limitKeys(admin, 4)
    const gone = ids.slice(0, 2)
    const { version } = await previewed(admin, { ids: gone })
    expect(await createOneMore(admin)).toBe(409)
    await changed(admin, { action: 'revoke', ids: gone, version })
    const made = await Promise.all([1, 2, 3, 4].map(async () => await createOneMore(admin)))
    expect(made.toSorted()).toEqual([201, 201, 409, 409])
    const rest = await previewed(admin, { filter: { state: ['active'] } })
    expect(rest.active).toBe(4)
    const all = rest.keys.map(({ id }) => id)
    const [receipt, ...later] = await Promise.all([
      changed(admin, { action: 'revoke', ids: all, version: rest.version }),
      ...[1, 2].map(async () => await createOneMore(admin)),
    ])
    expect(receipt.changed).toBe(4)
    for (const status of later) expect([201, 409]).toContain(status)
    const active = await previewed(admin, { filter: { state: ['active'] } })
    expect(active.active).toBe(later.filter((status) => status === 201).length)
  })
})

describe('a revoke of several keys answers', () => {
  test('only after every gateway with a lease has applied the entry of each key', async () => {
    const admin = await newTenant(service)
    await whileLeased(async () => {
      const { keys, ids } = await someKeys(admin, 10)
      const { version } = await previewed(admin, { ids })
      const gateways = await Promise.all([1, 2, 3, 4].map(async () => await new LeaseHolder(service.ask).take()))
      const [laggard] = gateways
      let isAnswered = false
      const answer = changed(admin, { action: 'revoke', ids, version }).finally(() => {
        isAnswered = true
      })
      const told = new Set<string>()
      try {
        for (const gateway of gateways.slice(1)) {
          await expect
            .poll(
              async () => {
                for (const entry of (await gateway.renew()).revocations) if (entry.kind === 'key') told.add(entry.hash)
                return told.size
              },
              { interval: 2 },
            )
            .toBe(keys.length)
          await gateway.renew()
        }
        expect(isAnswered).toBe(false)
        await laggard?.renew()
        await laggard?.renew()
        expect((await answer).enforcement).toMatchObject({ gateways: 4, confirmed: 4, fenced: 0 })
      } finally {
        await Promise.all(gateways.map(async (gateway) => await gateway.release()))
        await answer
      }
    })
  })

  test('when the lease of a silent gateway has ended, and reports it as fenced', async () => {
    const admin = await newTenant(service)
    const answer = await retryWhileUnconfirmed(async () => {
      const { ids } = await someKeys(admin, 3)
      const { version } = await previewed(admin, { ids })
      const silent = await new LeaseHolder(service.ask).take()
      const told = await change(admin, { action: 'revoke', ids, version })
      expect((await silent.renew()).granted).toBe(false)
      await silent.release()
      return told
    })
    expect(bulkReceiptSchema.parse(answer.json).enforcement).toMatchObject({ gateways: 1, confirmed: 0, fenced: 1 })
  })

  test(`for ${maxBulkKeys} keys on four gateways`, async () => {
    const admin = await newTenant(service)
    const ids = await insertKeys(admin, maxBulkKeys)
    const { version } = await previewed(admin, { ids })
    const gateways = await Promise.all([1, 2, 3, 4].map(async () => await new LeaseHolder(service.ask).take()))
    const answer = retryWhileUnconfirmed(async () => await change(admin, { action: 'revoke', ids, version }))
    const settled = await during(answer, async () => {
      await Promise.all(gateways.map(async (gateway) => await gateway.renew()))
    })
    await Promise.all(gateways.map(async (gateway) => await gateway.release()))
    const receipt = bulkReceiptSchema.parse(settled.json)
    expect(receipt.keys.length).toBe(maxBulkKeys)
    expect(receipt.keys.every((key) => key.state === 'revoked' && key.enforced_at !== null)).toBe(true)
    expect(receipt.enforcement?.gateways).toBe(receipt.enforcement?.confirmed)
  })
})
