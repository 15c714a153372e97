import { createdApiKeySchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bulkActions } from './bulk-support.ts'
import { type KeysUnderTest, getKey, newTenant, path, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const { change, previewed, changed, someKeys } = bulkActions(() => service)

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

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

test('no key changes if the overlap of one of them began after the preview', async () => {
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

test('rotated keys expire at the shortened time, even if the new key is first used later', async () => {
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

test('rotated keys keep their overlap when they get another label', async () => {
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

test('rotated keys stay active when the new keys are revoked, and stay revoked when they are revoked themselves', async () => {
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
