import type { CallAnswer, Principal, SignedCaller } from '@postern/local-stack/testing'
import { openTenantDb } from '@postern/tenant-db'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { admin, makeWorld, push, row } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let caller: SignedCaller
let close: () => Promise<void>
beforeAll(async () => {
  world = await makeWorld()
  const universe = await world.spawnUniverse()
  const sync = await world.startSync(universe.url, { POSTERN_SYNC_WORKERS: '0' })
  caller = world.syncCaller(sync.url)
  close = async () => {
    await sync.close()
    await universe.stop()
    await world.close()
  }
})
afterAll(async () => await close())

const scimUser = (name: string) => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
  userName: name,
  name: { formatted: name },
})
const provision = async (principal: Principal, name: string): Promise<CallAnswer> =>
  await caller.call(principal, 'POST', '/scim/v2/Users', { body: scimUser(name) })

/** Sets the time of the tenant's connectors, as a push whose commit takes long, while `work` runs. */
async function whileCommitWaits({ tenantId }: Principal, work: () => Promise<void>): Promise<void> {
  const other = openTenantDb({
    connectionString: world.database.url('superuser'),
    maxConnections: 1,
    connectTimeoutMs: 60_000,
    queryTimeoutMs: 60_000,
    applicationName: 'slow-push',
  })
  await other.system(async (tx) => {
    const text = 'update sync.connector set last_run_at = now() where tenant_id = $1 returning key'
    expect(await tx.query({ text, values: [tenantId] })).toHaveLength(2)
    await work()
  })
  await other.close()
}

test('pushes and provisioned users of one tenant do not wait for a push whose commit takes long', async () => {
  const principal = admin()
  expect((await push(caller, principal, [row()])).status).toBe(200)
  expect((await provision(principal, 'first@example.org')).status).toBe(201)
  await whileCommitWaits(principal, async () => {
    const answers = await Promise.all([
      ...Array.from({ length: 4 }, async () => await push(caller, principal, [row()])),
      ...Array.from({ length: 4 }, async (_none, at) => await provision(principal, `user-${at}@example.org`)),
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 201, 201, 201, 201])
  })
  const stale = `select key from sync.connector c where c.tenant_id = $1
    and c.last_run_at < (select max(r.started_at) from sync.run r where r.connector_id = c.id) - interval '1 hour'`
  expect(await world.rows(stale, [principal.tenantId])).toEqual([])
})
