import { compileCache, programOf } from '@postern/local-stack/testing'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { connectorSchema, runSchema } from '@postern/contracts'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { admin, makeWorld } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
const processes: ChildProcess[] = []

beforeAll(async () => {
  world = await makeWorld()
  universe = await world.spawnUniverse()
})

afterAll(async () => {
  for (const child of processes) child.kill('SIGKILL')
  await universe.stop()
  await world.close()
})

/** A sync service with its workers, in a process of its own. */
async function spawnSync(): Promise<{ readonly url: string; readonly child: ChildProcess }> {
  const child = spawn(process.execPath, [programOf('sync')], {
    env: {
      PATH: '/usr/bin:/bin',
      NODE_COMPILE_CACHE: compileCache,
      ...world.syncEnvironment(universe.url),
      POSTERN_SYNC_WORKERS: '8',
      POSTERN_PORT: '0',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  processes.push(child)
  for await (const line of createInterface({ input: child.stdout })) {
    const entry: { event?: string; port?: number } = JSON.parse(line)
    if (entry.event === 'listening') {
      child.stdout.resume()
      return { url: `http://127.0.0.1:${entry.port}`, child }
    }
  }
  throw new Error('the sync service did not start')
}

// The first attempt at a run stops where the name of its connector says, until its process is dead: as the statement
// that ends the step, before it is committed.
const pauseAtSteps = `
  create function sync.pause_for_test() returns trigger language plpgsql as $$
  declare
    step text := case when new.applied_count > old.applied_count then 'applied' else new.status end;
  begin
    if new.attempt = 1 and old.holder is not null and exists (
      select from sync.connector c where c.id = new.connector_id and c.name = 'pause when ' || step
    ) then
      perform pg_sleep(110);
    end if;
    return new;
  end
  $$`
const pauseTrigger =
  'create trigger pause_for_test before update on sync.run for each row execute function sync.pause_for_test()'

// What was learned is committed, and the universe has not been told; later it has, and nobody has noted that.
const pauseWhenTelling = `
  create function sync.pause_telling_for_test() returns trigger language plpgsql as $$
  begin
    if new.name = 'pause when telling'
      and exists (select from sync.run r where r.connector_id = new.id and r.attempt = 1) then
      perform pg_sleep(110);
    end if;
    return new;
  end
  $$`
const tellingTrigger =
  'create trigger pause_telling_for_test before update of telling on sync.connector for each row execute function sync.pause_telling_for_test()'

const steps = ['fetching', 'validating', 'diffing', 'applying', 'applied', 'telling', 'succeeded'] as const

test('a worker that is killed at any step is followed by another: nothing is lost, nothing is done twice', async () => {
  await world.rows(pauseAtSteps)
  await world.rows(pauseTrigger)
  await world.rows(pauseWhenTelling)
  await world.rows(tellingTrigger)
  const before = await spawnSync()
  const begun = await Promise.all(
    steps.map(async (step) => {
      const tenant = admin()
      const caller = world.syncCaller(before.url)
      const body = { key: 'table', name: `pause when ${step}`, type: 'csv', dataset: 'auditable_entities' }
      const made = connectorSchema.parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json)
      const csv =
        'external_id,parent_external_id,name,type\nB,A,Second,process\nA,,First,department\nC,B,Third,process\n'
      const answer = await caller.call(tenant, 'POST', `/api/v1/connectors/${made.id}/runs`, {
        body: csv,
        headers: { 'content-type': 'text/csv' },
      })
      return { tenant, run: runSchema.parse(answer.json) }
    }),
  )
  const pausedText = `select pid from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`
  await vi.waitFor(async () => expect(await world.rows(pausedText)).toHaveLength(steps.length), {
    timeout: 60_000,
    interval: 200,
  })
  const died = once(before.child, 'exit')
  before.child.kill('SIGKILL')
  await died
  // As the machine's network would: nobody is there to answer.
  await world.rows(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name like 'postern-sync%' and datname = current_database()`,
  )
  const after = await spawnSync()
  const caller = world.syncCaller(after.url)
  for (const { tenant, run } of begun) {
    await vi.waitFor(
      async () => {
        const now = runSchema.parse((await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}`)).json)
        expect(now).toMatchObject({
          status: 'succeeded',
          counts: { fetched: 3, valid: 3, created: 3, applied: 3, invalid: 0 },
        })
        expect(now.attempt).toBeGreaterThan(1)
      },
      { timeout: 120_000, interval: 500 },
    )
    const stored = await world.rows(
      'select external_id, version from universe.entity where tenant_id = $1 order by external_id',
      [tenant.tenantId],
    )
    expect(stored).toEqual(['A', 'B', 'C'].map((external_id) => ({ external_id, version: 1 })))
    const read = await world.rows(
      'select seen_run_id, (select bool_and(told_connector_id = connector_id) from sync.known_row k where k.tenant_id = $1) as told from universe.source_connector where tenant_id = $1',
      [tenant.tenantId],
    )
    expect(read).toEqual([{ seen_run_id: run.id, told: true }])
    // What a run needs no more is removed after its end.
    const left = `select 'staged' from sync.staged_row where tenant_id = $1
      union all select 'staged' from sync.staged_block where tenant_id = $1
      union all select 'staged' from sync.staged_current where tenant_id = $1
      union all select 'upload' from sync.upload_chunk where tenant_id = $1
      union all select 'grant' from tenancy.granted_work where tenant_id = $1`
    await vi.waitFor(async () => expect(await world.rows(left, [tenant.tenantId])).toEqual([]), {
      timeout: 60_000,
      interval: 100,
    })
  }
}, 240_000)
