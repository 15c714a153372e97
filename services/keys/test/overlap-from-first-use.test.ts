/** @promise Keys and secrets: The overlap of a rotation can begin with the first use of the new key; the old one never outlives its own expiry. */

import { type ApiKey, apiKeyEventSchema, createdApiKeySchema, keyHealthSchema, problemSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startOverlaps } from '../src/api-key/pending-overlap.ts'
import { type KeysUnderTest, eventTypes, getKey, newKey, newTenant, path, revoke, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const hourMs = 3_600_000
const inHours = (hours: number) => new Date(Date.now() + hours * hourMs).toISOString()

async function rotate(admin: Principal, id: string, body: object) {
  return await service.call(admin, 'POST', `${path}/${id}/rotate`, { body })
}

/** Rotates a key whose overlap begins with the first use of the new one. */
async function rotatePending(admin: Principal, id: string, body: object = {}): Promise<ApiKey> {
  const { json } = await rotate(admin, id, { overlap: '2h', overlap_from: 'first_use', ...body })
  return createdApiKeySchema.parse(json)
}

async function report({ tenantId }: Principal, keyId: string, routes: object = { 'findings.list': 1 }): Promise<void> {
  const uses = [{ keyId, tenantId, address: '203.0.113.7', lastUsedAt: Date.now(), count: 1, routes }]
  expect((await service.ask(internalPaths.usage, { uses, denials: [] })).status).toBe(204)
}

/** As housekeeping, which also runs in the service. */
async function start(): Promise<void> {
  const logger = createLogger({ service: 'keys', level: 'fatal', write: () => undefined })
  const enforcer = { enforceKeys: async () => ({ at: new Date(), enforcement: null }) }
  await startOverlaps({ db: service.asService, enforcer, logger })
}

/** Resolves when no overlap of the key is pending. */
async function untilStarted(admin: Principal, id: string): Promise<void> {
  await expect
    .poll(
      async () => {
        await start()
        return (await getKey(service, admin, id)).pending_overlap
      },
      { timeout: 20_000 },
    )
    .toBeNull()
}

async function startsOf(admin: Principal, id: string) {
  const { json } = await service.call(admin, 'GET', `${path}/${id}/events`)
  return apiKeyEventSchema
    .array()
    .parse(json)
    .filter(({ detail }) => detail['reason'] === 'The new key was first used')
}

async function logOf(hash: string) {
  const text = `select r.version from keys.revocation as r where r.hash = decode($1, 'hex')`
  return await service.asSuperuser.system(async (tx) => await tx.query(sql(text, hash)))
}

describe('a rotation is refused', () => {
  test('with another start of the overlap', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const answer = await rotate(admin, id, { overlap_from: 'creation' })
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors).toMatchObject([{ pointer: '/overlap_from' }])
    expect((await rotate(admin, id, { overlap_from: 'rotation' })).status).toBe(201)
  })

  test('of the old key while the overlap is pending, and of the new key until it was used', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const successor = await rotatePending(admin, id)
    const again = await rotate(admin, id, {})
    expect([again.status, problemSchema.parse(again.json).detail]).toEqual([
      409,
      expect.stringContaining(`replaced by the key ${successor.id}`),
    ])
    const early = await rotate(admin, successor.id, {})
    expect([early.status, problemSchema.parse(early.json).detail]).toEqual([
      409,
      expect.stringContaining(`The overlap of the key ${id} waits for the first use`),
    ])
    await report(admin, successor.id)
    expect((await rotate(admin, successor.id, {})).status).toBe(201)
  })
})

describe('with `overlap_from: first_use`, the old key', () => {
  test('keeps its expiry until the new one is used, and then ends after the overlap', async () => {
    const admin = await newTenant(service)
    const old = await newKey(service, admin)
    const before = await getKey(service, admin, old.id)
    const successor = await rotatePending(admin, old.id)
    await start()
    const pending = await service.call(admin, 'GET', `${path}/${old.id}`)
    expect(pending.json).toMatchObject({ expires_at: before.expires_at, pending_overlap: '2h', state: 'active' })
    expect(pending.headers['etag']).not.toBe(old.etag)
    expect(await logOf(old.hash)).toEqual([])

    const from = Date.now()
    await report(admin, successor.id)
    await untilStarted(admin, old.id)
    const { expires_at, version } = await getKey(service, admin, old.id)
    expect(Date.parse(expires_at)).toBeGreaterThanOrEqual(from + 2 * hourMs)
    expect(Date.parse(expires_at)).toBeLessThanOrEqual(Date.now() + 2 * hourMs)
    expect(await logOf(old.hash)).toEqual([{ version }])
    expect(await startsOf(admin, old.id)).toMatchObject([
      {
        type: 'updated',
        actor: null,
        detail: {
          rotated_to: successor.id,
          overlap: '2h',
          changes: { expires_at: { from: before.expires_at, to: expires_at } },
        },
      },
    ])
    const events = await service.call(admin, 'GET', `/api/v1/audit-events?action=key.changed&resource=${old.id}`)
    expect(events.json).toMatchObject([
      { actor_type: 'system', actor_id: null, actor_name: 'Postern', resource_name: before.label },
    ])
  })

  test('is not ended by refused requests of the new one', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const successor = await rotatePending(admin, id)
    await report(admin, successor.id, {})
    await start()
    expect(await getKey(service, admin, id)).toMatchObject({ pending_overlap: '2h', version: 1 })
    await report(admin, successor.id)
    await untilStarted(admin, id)
  })

  test('ends once, whatever uses follow and however many replicas look', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const successor = await rotatePending(admin, id)
    await report(admin, successor.id)
    await Promise.all(Array.from({ length: 6 }, start))
    await untilStarted(admin, id)
    const { expires_at } = await getKey(service, admin, id)
    await report(admin, successor.id)
    await start()
    expect((await getKey(service, admin, id)).expires_at).toBe(expires_at)
    expect(await startsOf(admin, id)).toHaveLength(1)
  })

  test('never outlives its own expiry, also a later narrowed one', async () => {
    const admin = await newTenant(service)
    const expires_at = inHours(1)
    const short = await newKey(service, admin, { expires_in: 'custom', expires_at })
    const narrowed = await newKey(service, admin)
    const successors = [await rotatePending(admin, short.id), await rotatePending(admin, narrowed.id)]
    const body = { expires_at }
    const headers = { 'if-match': '*' }
    expect((await service.call(admin, 'PATCH', `${path}/${narrowed.id}`, { body, headers })).status).toBe(200)
    for (const { id } of successors) await report(admin, id)
    for (const { id } of [short, narrowed]) {
      await untilStarted(admin, id)
      expect((await getKey(service, admin, id)).expires_at).toBe(expires_at)
      expect(await startsOf(admin, id)).toEqual([])
    }
  })

  test('ends with the first use if there is no overlap', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const successor = await rotatePending(admin, id, { overlap: '0s', scopes: ['read:findings'] })
    expect((await getKey(service, admin, id)).state).toBe('active')
    await report(admin, successor.id)
    await untilStarted(admin, id)
    await expect.poll(async () => (await getKey(service, admin, id)).state).toBe('expired')
  })

  test('keeps its expiry if the new one is revoked before its first use, and can be rotated again', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const { expires_at } = await getKey(service, admin, id)
    const lost = await rotatePending(admin, id)
    await revoke(service, admin, lost.id)
    // A late report.
    await report(admin, lost.id)
    await start()
    expect(await getKey(service, admin, id)).toMatchObject({ expires_at, pending_overlap: null })
    const second = await rotatePending(admin, id, { overlap: '1h' })
    expect(await getKey(service, admin, id)).toMatchObject({ expires_at, pending_overlap: '1h' })
    await report(admin, second.id)
    await untilStarted(admin, id)
    expect(Date.parse((await getKey(service, admin, id)).expires_at)).toBeLessThanOrEqual(Date.now() + hourMs)
  })

  test('stays revoked if it is revoked while the overlap is pending', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const successor = await rotatePending(admin, id)
    await revoke(service, admin, id)
    await report(admin, successor.id)
    await start()
    expect(await getKey(service, admin, id)).toMatchObject({ state: 'revoked', pending_overlap: null })
    expect(await eventTypes(service, admin, id)).toEqual(['revoked', 'rotated', 'created'])
    expect((await rotate(admin, successor.id, {})).status).toBe(201)
  })

  test('is listed as rotated but still used while the overlap is pending', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    await rotatePending(admin, id)
    await report(admin, id)
    const assess = sql('select keys.assess_keys($1, array[$2]::uuid[])', admin.tenantId, id)
    await service.asSuperuser.system(async (tx) => await tx.execute(assess))
    const { json } = await service.call(admin, 'GET', '/api/v1/key-health')
    const { reasons } = keyHealthSchema.parse(json)
    expect(reasons.find(({ reason }) => reason === 'rotated_in_use')?.keys).toBe(1)
  })
})
