/**
 * @promise Operation: If a process dies between the universe and the stored SCIM user, a worker makes the universe equal to what is stored.
 */

import { internalPaths } from '@postern/contracts/internal'
import { startTestProxy } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { patch, resource } from './scim-support.ts'
import { admin, makeWorld, spawnSync } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let close: () => Promise<void>
let url: string
/** If true, the universe applies pushes of people, but its responses are lost. */
let losesAnswers = false
const killed: (() => unknown)[] = []

beforeAll(async () => {
  world = await makeWorld()
  const universe = await world.spawnUniverse()
  const proxy = await startTestProxy(universe.url, async ({ path }, forward) => {
    const answer = await forward()
    return losesAnswers && path === internalPaths.pushPeople ? undefined : answer
  })
  ;({ url } = proxy)
  close = async () => {
    for (const kill of killed) kill()
    await proxy.close()
    await universe.stop()
    await world.close()
  }
})
afterAll(async () => await close())

async function spawn() {
  const sync = await spawnSync({ ...world.syncEnvironment(url), POSTERN_SYNC_WORKERS: '1' })
  killed.push(sync.kill)
  return sync
}

const people = async (tenantId: string) =>
  await world.rows('select external_id, title, active from universe.person where tenant_id = $1 order by external_id', [
    tenantId,
  ])
const pending = async (tenantId: string) =>
  await world.rows('select person_key from sync.scim_pending where tenant_id = $1', [tenantId])

test('a changed and a created user are corrected after their process was killed', async () => {
  const tenant = admin()
  const dying = await spawn()
  const scim = async (method: string, path: string, body: unknown) =>
    await world.syncCaller(dying.url).call(tenant, method, `/scim/v2${path}`, {
      body: Buffer.from(JSON.stringify(body)),
      headers: { 'content-type': 'application/scim+json' },
    })
  const made = await scim('POST', '/Users', {
    userName: 'ada',
    title: 'Auditor',
    emails: [{ value: 'ada@x.example' }],
  })
  const { id } = resource.parse(made.json)
  expect(await pending(tenant.tenantId)).toEqual([])
  await insertRefusedPush(tenant.tenantId, scim)

  losesAnswers = true
  const title = patch({ op: 'replace', path: 'title', value: 'Chief' })
  const lost = [scim('PATCH', `/Users/${id}`, title), scim('POST', '/Users', { userName: 'bo', title: 'Clerk' })]
  const outcomes = Promise.allSettled(lost)
  const applied = [
    { external_id: 'ada', title: 'Chief', active: true },
    { external_id: 'bo', title: 'Clerk', active: true },
    { external_id: 'refused', title: null, active: true },
  ]
  await vi.waitFor(async () => expect(await people(tenant.tenantId)).toEqual(applied), { timeout: 60_000 })
  expect(await pending(tenant.tenantId)).toHaveLength(3)
  dying.kill()
  await outcomes
  losesAnswers = false

  await spawn()
  // Older than any push may take.
  await world.rows(`update sync.scim_pending set created_at = now() - interval '1 hour' where tenant_id = $1`, [
    tenant.tenantId,
  ])
  await world.rows(`update queue.job set start_after = now() where name = 'scim-correction'`)
  await vi.waitFor(async () => expect(await pending(tenant.tenantId)).toEqual([{ person_key: 'refused' }]), {
    timeout: 60_000,
  })
  expect(await people(tenant.tenantId)).toEqual([
    { external_id: 'ada', title: 'Auditor', active: true },
    { external_id: 'bo', title: 'Clerk', active: false },
    { external_id: 'refused', title: null, active: true },
  ])
  const delay = `select extract(epoch from start_after - created_on)::integer as seconds from queue.job
    where name = 'scim-correction' and state = 'created'`
  await vi.waitFor(async () => expect(await world.rows(delay)).toEqual([{ seconds: 300 }]), { timeout: 30_000 })
})

/** The oldest push cannot be corrected, because another person has the address. */
async function insertRefusedPush(
  tenantId: string,
  scim: (method: string, path: string, body: unknown) => Promise<unknown>,
): Promise<void> {
  await scim('POST', '/Users', { userName: 'refused' })
  await world.rows(`delete from sync.scim_user where tenant_id = $1 and user_name = 'refused'`, [tenantId])
  const pushed = { external_id: 'refused', name: 'refused', active: true }
  await world.rows(
    `insert into sync.scim_pending (tenant_id, person_key, pushed, fallback, unit_keys) values ($1, 'refused', $2, $3, '{}')`,
    [tenantId, JSON.stringify(pushed), JSON.stringify({ ...pushed, email: 'ada@x.example' })],
  )
}
