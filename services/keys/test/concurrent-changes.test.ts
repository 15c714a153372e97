import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { reviewKeys } from '../src/health/store.ts'
import { type KeysUnderTest, keyBody, newKey, newTenant, path, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const rounds = 20

/** Which reasons PostgreSQL keeps for which keys. */
async function storedReasons({ tenantId }: Principal): Promise<unknown[]> {
  const read = sql(
    'select key_id, reason from keys.api_key_health where tenant_id = $1 order by key_id, reason',
    tenantId,
  )
  return await service.asSuperuser.system(async (tx) => await tx.query(read))
}

async function reviewAll({ tenantId }: Principal): Promise<void> {
  const assess = sql('select keys.assess_keys($1, array(select id from keys.api_key where tenant_id = $1))', tenantId)
  await service.asSuperuser.system(async (tx) => await tx.execute(assess))
}

test('changes of the same keys at the same time wait for each other, and none fails', async () => {
  const admin = await newTenant(service)
  const { tenantId } = admin
  const keys = await Promise.all(Array.from({ length: 30 }, async () => await newKey(service, admin)))
  const ids = keys.map(({ id }) => id)
  const reportUse = async (order: readonly string[]) => {
    const lastUsedAt = Date.now()
    const uses = order.map((keyId) => {
      return { keyId, tenantId, address: '203.0.113.7', lastUsedAt, count: 2, routes: { 'findings.list': 1 } }
    })
    return await service.ask(internalPaths.usage, { uses, denials: [] })
  }
  const setPolicy = async (rotationDays: number) =>
    await service.call(admin, 'PATCH', '/api/v1/key-policy', {
      body: { rotation_days: rotationDays },
      headers: { 'if-match': '*' },
    })
  const edit = async (id: string, note: string) =>
    await service.call(admin, 'PATCH', `${path}/${id}`, {
      body: { note, owner: { type: 'team', name: 'SOC', contact: `soc-${note}@harbourline.example` } },
      headers: { 'if-match': '*' },
    })
  const send = async (target: string, body: object) => await service.call(admin, 'POST', target, { body })
  const review = async () => await service.asService.system(async (tx) => await reviewKeys(tx, 100))

  const answers: { readonly status: number; readonly text: string }[] = []
  for (let round = 0; round < rounds; round += 1) {
    const active = ids.slice(0, 5)
    const [rotated = '', revoked = '', edited = ''] = active.slice(round % 3)
    const reviewing = review()
    const settled = await Promise.all([
      reportUse(ids),
      reportUse(ids.toReversed()),
      setPolicy(30 + round),
      reportUse(ids.toSorted()),
      setPolicy(60 + round),
      reportUse(ids.toSorted().toReversed()),
      edit(edited, `${round}`),
      edit(revoked, `${round}`),
      send(`${path}/${rotated}/rotate`, { overlap: '24h' }),
      send(`${path}/${rotated}/rotate`, { overlap: '24h' }),
      send(path, keyBody()),
      send(`${path}/${revoked}/revoke`, {}),
      send(`${path}/${revoked}/revoke`, {}),
    ])
    await reviewing
    answers.push(...settled)
    for (const answer of settled) {
      const created: unknown = answer.status === 201 ? JSON.parse(answer.text) : undefined
      if (typeof created === 'object' && created !== null && 'id' in created) ids.unshift(String(created.id))
    }
  }

  expect(answers.filter(({ status }) => status >= 500)).toEqual([])
  expect(answers.filter(({ status }) => status === 201).length).toBeGreaterThan(rounds)
  while (await review());
  const kept = await storedReasons(admin)
  await reviewAll(admin)
  expect(await storedReasons(admin)).toEqual(kept)
})
