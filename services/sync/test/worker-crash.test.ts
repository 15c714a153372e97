import { compileCache, programOf } from '@postern/local-stack/testing'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { type Connector, type Run, connectorSchema, runSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
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
      POSTERN_SYNC_WORKERS: '16',
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

// An attempt at a run stops where the name of its connector says, until its process is dead: as the statement that ends the step,
// before it is committed.
const pauseAtSteps = `
  create function sync.pause_for_test() returns trigger language plpgsql as $$
  declare
    step text := case when new.applied_count > old.applied_count then 'applied' else new.status end;
  begin
    if old.holder is not null and new.holder = old.holder and exists (
      select from sync.connector c where c.id = new.connector_id and c.name = 'pause when ' || step || ' at ' || new.attempt
    ) then
      perform pg_sleep(110);
    end if;
    return new;
  end
  $$`
const pauseTrigger =
  'create trigger pause_for_test before update on sync.run for each row execute function sync.pause_for_test()'

const table =
  'external_id,parent_external_id,name,type\nB,A,Second,process\nA,,First,department\nC,B,Third,process\nD,,Fourth,process\n'
/** One has another name, one is elsewhere, and one is gone. */
const changed =
  'external_id,parent_external_id,name,type\nB,A,Second too,process\nA,,First,department\nC,A,Third,process\n'

const made = { status: 'succeeded', counts: { fetched: 4, valid: 4, created: 4, applied: 4, invalid: 0 } }
const turned = { status: 'succeeded', counts: { updated: 1, moved: 1, deactivated: 1, created: 0, applied: 3 } }
const undone = { status: 'succeeded', counts: { updated: 1, moved: 1, reactivated: 1, applied: 3 } }
const entity = (key: string, above: string | null, name: string, status: string, version: number) => ({
  key,
  above,
  name,
  status,
  version,
})
const asMade = [
  entity('A', null, 'First', 'active', 1),
  entity('B', 'A', 'Second', 'active', 1),
  entity('C', 'B', 'Third', 'active', 1),
  entity('D', null, 'Fourth', 'active', 1),
]
const asTurned = [
  entity('A', null, 'First', 'active', 1),
  entity('B', 'A', 'Second too', 'active', 2),
  entity('C', 'A', 'Third', 'active', 2),
  // That its source has it no more is noted as well.
  entity('D', null, 'Fourth', 'archived', 3),
]
const asUndone = asMade.map((one) => ({ ...one, version: { A: 1, B: 3, C: 3, D: 4 }[one.key] }))

/** Kinds of runs, where and in which attempt each dies, and the expected result. */
const kinds = {
  first: {
    steps: ['fetching', 'validating', 'diffing', 'applying', 'applied', 'succeeded'],
    attempt: 1,
    ends: made,
    entities: asMade,
  },
  changing: { steps: ['diffing', 'applying', 'applied', 'succeeded'], attempt: 1, ends: turned, entities: asTurned },
  approved: { steps: ['applied'], attempt: 2, ends: turned, entities: asTurned },
  undoing: { steps: ['queued', 'applied'], attempt: 1, ends: undone, entities: asUndone },
} as const
type Kind = keyof typeof kinds

/** The actions of one tenant. */
function tenantOf(caller: SignedCaller) {
  const tenant = admin()
  const ask = async (method: string, path: string, more: object = {}) => await caller.call(tenant, method, path, more)
  const now = async ({ id }: Run): Promise<Run> => runSchema.parse((await ask('GET', `/api/v1/sync-runs/${id}`)).json)
  return {
    tenant,
    create: async (body: object): Promise<Connector> =>
      connectorSchema.parse((await ask('POST', '/api/v1/connectors', { body })).json),
    change: async ({ id }: Connector, body: object): Promise<void> =>
      expect(await ask('PATCH', `/api/v1/connectors/${id}`, { body, headers: { 'if-match': '*' } })).toMatchObject({
        status: 200,
      }),
    start: async ({ id }: Connector, body: string): Promise<Run> => {
      const headers = { 'content-type': 'text/csv' }
      return runSchema.parse((await ask('POST', `/api/v1/connectors/${id}/runs`, { body, headers })).json)
    },
    decide: async ({ id }: Run, decision: string, body: object): Promise<Run> =>
      runSchema.parse((await ask('POST', `/api/v1/sync-runs/${id}/${decision}`, { body })).json),
    until: async (run: Run, wanted: object): Promise<Run> =>
      await vi.waitFor(
        async () => {
          const found = await now(run)
          expect(found).toMatchObject(wanted)
          return found
        },
        { timeout: 120_000, interval: 250 },
      ),
  }
}

/** Does all that goes before; answers what begins the run that is to die. */
async function prepare(caller: SignedCaller, kind: Kind, step: string) {
  const { tenant, create, change, start, decide, until } = tenantOf(caller)
  const all = { max_change_pct: 100, max_deactivate_pct: 100, max_deactivate: 1000 }
  const fields = { type: 'csv', dataset: 'auditable_entities', missing_policy: 'deactivate', safety: all }
  const connector = await create({ ...fields, key: 'table', name: 'not yet' })
  const name = `pause when ${step} at ${kinds[kind].attempt}`
  const begin = async (): Promise<Run> => {
    if (kind === 'first') {
      await change(connector, { name })
      return await start(connector, table)
    }
    await until(await start(connector, table), made)
    if (kind === 'changing') {
      await change(connector, { name })
      return await start(connector, changed)
    }
    if (kind === 'approved') {
      await change(connector, { name, safety: { min_rows: 10 } })
      const waiting = await until(await start(connector, changed), { status: 'needs_approval' })
      return await decide(waiting, 'approve', { diff_hash: waiting.diff_hash, reason: 'as announced' })
    }
    const run = await until(await start(connector, changed), turned)
    await change(connector, { name })
    return await decide(run, 'rollback', {})
  }
  return { tenant, kind, step, run: await begin() }
}

async function entitiesOf({ tenantId }: Principal): Promise<unknown> {
  const text = `select e.external_id as key, above.external_id as above, e.name, e.status, e.version
    from universe.entity e left join universe.entity above on above.tenant_id = e.tenant_id and above.id = e.parent_id
    where e.tenant_id = $1 order by e.external_id`
  return await world.rows(text, [tenantId])
}

test('after a worker is killed at any step, another one continues: nothing is lost or done twice', async () => {
  await world.rows(pauseAtSteps)
  await world.rows(pauseTrigger)
  const before = await spawnSync()
  const cases = (['first', 'changing', 'approved', 'undoing'] as const).flatMap((kind) =>
    kinds[kind].steps.map((step) => ({ kind, step })),
  )
  const begun = await Promise.all(
    cases.map(async ({ kind, step }) => await prepare(world.syncCaller(before.url), kind, step)),
  )
  const pausedText = `select pid from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`
  await vi.waitFor(async () => expect(await world.rows(pausedText)).toHaveLength(cases.length), {
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
  for (const { tenant, kind, step, run } of begun) {
    const what = `${kind} ${step}`
    const { attempt, ends, entities } = kinds[kind]
    await vi.waitFor(
      async () => {
        const now = runSchema.parse((await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}`)).json)
        expect(now, what).toMatchObject(ends)
        expect(now.attempt, what).toBeGreaterThan(attempt)
      },
      { timeout: 120_000, interval: 500 },
    )
    expect(await entitiesOf(tenant), what).toEqual(entities)
    const read = await world.rows('select seen_run_id from universe.source_connector where tenant_id = $1', [
      tenant.tenantId,
    ])
    if (kind !== 'undoing') expect(read, what).toEqual([{ seen_run_id: run.id }])
    // What a run needs no more is removed after its end.
    const left = `select 'staged' from universe.import_row where tenant_id = $1
        and op in ('keep', 'miss', 'leave', 'gone', 'invalid')
      union all select 'upload' from sync.upload_chunk where tenant_id = $1
      union all select 'grant' from tenancy.granted_work where tenant_id = $1`
    await vi.waitFor(async () => expect(await world.rows(left, [tenant.tenantId]), what).toEqual([]), {
      timeout: 60_000,
      interval: 100,
    })
  }
}, 240_000)
