import { maxBulkKeys, problemSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { CallAnswer, Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bulkActions } from './bulk-support.ts'
import {
  type KeysUnderTest,
  eventTypes,
  getKey,
  lookUp,
  newKey,
  newTenant,
  path,
  revoke,
  sql,
  startKeys,
} from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const { preview, change, previewed, changed, someKeys, insertKeys } = bulkActions(() => service)

const errorsOf = ({ json }: CallAnswer) => problemSchema.parse(json).errors
const shapeOf = (answer: CallAnswer) => ({ status: answer.status, errors: errorsOf(answer) })
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

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

test('only administrators change several keys', async () => {
  const admin = await newTenant(service)
  const { ids } = await someKeys(admin, 2)
  const { version } = await previewed(admin, { ids })
  const auditor = { ...admin, roles: ['auditor'] } as const
  expect((await preview(auditor, { ids })).status).toBe(403)
  expect((await change(auditor, { action: 'revoke', ids, version })).status).toBe(403)
  await changed(admin, { action: 'revoke', ids, version })
})

test('no key changes if one of them was changed after the preview', async () => {
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
])('an action is rejected if one of the keys is revoked: %s', async (action, wanted) => {
  const admin = await newTenant(service)
  const { ids } = await someKeys(admin, 2)
  await revoke(service, admin, ids[1] ?? '')
  const { version } = await previewed(admin, { ids })
  const answer = await change(admin, { action, ids, version, ...wanted })
  expect(answer.status).toBe(409)
  expect(errorsOf(answer)).toMatchObject([{ pointer: '/ids/1', code: 'revoked' }])
  expect(await getKey(service, admin, ids[0] ?? '')).toMatchObject({ version: 1 })
})

test('keys of another tenant are rejected like unknown ids', async () => {
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
])('a change with invalid content is rejected (%#)', async (body) => {
  const admin = await newTenant(service)
  const { ids } = await someKeys(admin, 1)
  const { version } = await previewed(admin, { ids })
  const isWhole = 'expires_at' in body || 'reason' in body || 'owner' in body || 'label' in body
  const answer = await change(admin, { ...(isWhole ? { ids, version } : {}), ...body })
  expect(answer.status).toBe(422)
  expect(await getKey(service, admin, ids[0] ?? '')).toMatchObject({ version: 1 })
})

test('more keys than the limit of one call are rejected, and so is a filter without a condition', async () => {
  const admin = await newTenant(service)
  const ids = await insertKeys(admin, maxBulkKeys + 1)
  expect((await preview(admin, { ids })).status).toBe(422)
  const answer = await preview(admin, { filter: { state: ['active'] } })
  expect(answer.status).toBe(422)
  expect(errorsOf(answer)).toMatchObject([{ pointer: '/filter', code: 'too_many' }])
  expect((await preview(admin, { filter: {} })).status).toBe(422)
  expect((await previewed(admin, { filter: { label: 'Key 10' } })).keys.length).toBe(13)
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

test('several keys are revoked with one receipt and an event each, and a repeated request changes nothing', async () => {
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

test('several keys expire at the new time, except those that expire earlier', async () => {
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

test('a repeated change returns keys that have expired in the meantime', async () => {
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

test('several keys get another owner and another label', async () => {
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

test('concurrent requests revoke several keys once, whatever the order of their ids', async () => {
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
