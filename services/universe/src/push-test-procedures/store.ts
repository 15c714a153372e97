import { setImmediate } from 'node:timers/promises'
import type { CreatedBy, PushedTestProcedure, TestProcedure } from '@postern/contracts'
import type { ApplyEntitiesAnswer } from '@postern/contracts/internal'
import { type Tx, statement } from '@postern/tenant-db'
import { compareAsSets, raiseWorkMemory, sliceLength } from '../list/store.ts'
import { maxFaults } from '../push/rules.ts'
import type { NamedInTwoWays } from './rules.ts'

export type { Tx } from '@postern/tenant-db'

export async function lockTestProcedures(tx: Tx): Promise<void> {
  await Promise.all([tx.execute(makeCounter([])), tx.execute(lockCounter([])), compareAsSets(tx), raiseWorkMemory(tx)])
}

export async function listStatuses(
  tx: Tx,
  externalIds: readonly string[],
): Promise<Map<string, TestProcedure['status']>> {
  const rows = await tx.query<{ external_id: string; status: TestProcedure['status'] }>(statusesNow([externalIds]))
  return new Map(rows.map((row) => [row.external_id, row.status]))
}

/** Lists the first unknown entities of rows. `place` counts from 0. */
export async function listUnknownEntities(
  tx: Tx,
  rows: readonly PushedTestProcedure[],
): Promise<{ readonly index: number; readonly place: number }[]> {
  return await tx.query(unknownEntities([asNamed(rows), maxFaults]))
}

export async function listOwnReviews(tx: Tx, named: readonly NamedInTwoWays[]): Promise<number[]> {
  if (named.length === 0) return []
  const rows = await tx.query<{ index: number }>(
    ownReviews([
      named.map(({ index }) => index),
      named.map(({ id }) => id),
      named.map(({ email }) => email),
      maxFaults,
    ]),
  )
  return rows.map(({ index }) => index)
}

/** Creates new rows and updates changed ones. Call it under the lock, with existing entities. */
export async function writeTestProcedures(
  tx: Tx,
  rows: readonly PushedTestProcedure[],
  createdBy: CreatedBy,
): Promise<ApplyEntitiesAnswer> {
  const { type, id, label } = createdBy
  const answers: Promise<{ created: number; updated: number }[]>[] = []
  for (const { named, pushed } of slicesOf(rows)) {
    answers.push(tx.query(apply([named, pushed, type, id, label])))
    // PostgreSQL works on these while the next ones are serialized.
    await setImmediate()
  }
  let created = 0
  let updated = 0
  for (const counts of (await Promise.all(answers)).flat()) {
    created += counts.created
    updated += counts.updated
  }
  return { created, updated, unchanged: rows.length - created - updated }
}

/** The rows as JSON, in the order of the push, in slices for one statement each. */
function* slicesOf(rows: readonly PushedTestProcedure[]): Generator<{ named: string; pushed: string }> {
  let slice: PushedTestProcedure[] = []
  let texts: string[] = []
  let length = 0
  for (const [at, row] of rows.entries()) {
    const text = JSON.stringify(toRow(row, slice.length))
    slice.push(row)
    texts.push(text)
    length += text.length
    if (length < sliceLength && at < rows.length - 1) continue
    yield { named: asNamed(slice), pushed: `[${texts.join(',')}]` }
    slice = []
    texts = []
    length = 0
  }
}

function asNamed(rows: readonly PushedTestProcedure[]): string {
  return JSON.stringify(rows.map(({ entities }, index) => ({ index, entity_keys: entities })))
}

function toRow(row: PushedTestProcedure, index: number): object {
  const { entities: _named, period_start, period_end, due_date, custom, ...same } = row
  return {
    ...same,
    index,
    period_start_on: period_start,
    period_end_on: period_end,
    due_on: due_date,
    custom: custom ?? {},
  }
}

const makeCounter = statement(
  'universe_make_test_procedure_counter',
  `insert into universe.test_procedure_counter (tenant_id, last_number)
  values ((select tenancy.tenant_id()), 0)
  on conflict (tenant_id) do nothing`,
)

// A separate statement, so that the next one sees the commits of the previous holder.
const lockCounter = statement(
  'universe_lock_test_procedure_counter',
  'select counter.last_number from universe.test_procedure_counter counter for update',
)

const statusesNow = statement(
  'universe_test_procedure_statuses_now',
  `select t.external_id, t.status
  from unnest($1::text[]) as wanted (external_id)
  join universe.test_procedure t on t.external_id = wanted.external_id`,
)

// Compares all keys as a set, because a join for each row would read all entities each time.
const named = `
  named as materialized (
    select pushed.index, one.key, one.at
    from jsonb_to_recordset($1::jsonb) as pushed (index integer, entity_keys text[])
    cross join unnest(pushed.entity_keys) with ordinality as one (key, at)
  )`

const ownReviews = statement(
  'universe_own_reviews_of_test_procedures',
  `select distinct named.index
  from unnest($1::integer[], $2::uuid[], $3::text[]) as named (index, id, email)
  join universe.person p on p.id = named.id and p.email = lower(named.email)
  order by named.index
  limit $4`,
)

const unknownEntities = statement(
  'universe_unknown_entities_of_test_procedures',
  `with ${named}
  select named.index, (named.at - 1)::integer as place
  from named
  where not exists (select from universe.entity e where e.external_id = named.key)
  order by named.index, named.at
  limit $2`,
)

// Matched by test_procedure_external_id_unique. New rows are numbered in order, from the locked counter. Unchanged rows are not
// written and keep their version.
const apply = statement(
  'universe_apply_test_procedures',
  `with ${named},
  linked as materialized (
    select named.index, array_agg(e.id order by named.at) as entity_ids
    from named
    join universe.entity e on e.external_id = named.key
    group by named.index
  ),
  incoming as materialized (
    select
      pushed.*, coalesce(known.id, uuidv7()) as id, known.id is null as is_new,
      coalesce(linked.entity_ids, '{}') as entity_ids
    from jsonb_to_recordset($2::jsonb) as pushed (
      index integer, external_id text, title text, control_ref text, objective text, procedure_text text, method text,
      test_type text, engagement_ref text, period_start_on date, period_end_on date,
      population_size integer, sample_size integer, tester jsonb, reviewer jsonb, due_on date, status text,
      conclusion text, custom jsonb
    )
    left join universe.test_procedure known on known.external_id = pushed.external_id
    left join linked on linked.index = pushed.index
  ),
  made as (
    insert into universe.test_procedure (
      tenant_id, id, number, external_id, title, control_ref, objective, procedure_text, method, test_type, entity_ids,
      engagement_ref, period_start_on, period_end_on, population_size, sample_size, tester, reviewer, due_on, status,
      conclusion, custom, created_by_type, created_by_id, created_by_label
    )
    select
      counter.tenant_id, i.id, counter.last_number + row_number() over (order by i.index), i.external_id, i.title,
      i.control_ref, i.objective, i.procedure_text, i.method, i.test_type, i.entity_ids, i.engagement_ref,
      i.period_start_on, i.period_end_on, i.population_size, i.sample_size, i.tester, i.reviewer, i.due_on, i.status,
      i.conclusion, i.custom, $3::text, $4::text, $5::text
    from incoming i
    cross join universe.test_procedure_counter counter
    where i.is_new
    returning 1 as one
  ),
  counted as (
    update universe.test_procedure_counter counter
    set last_number = counter.last_number + fresh.count
    from (select count(*)::integer as count from incoming i where i.is_new) as fresh
    where fresh.count > 0
  ),
  changed as (
    update universe.test_procedure t
    set
      title = i.title, control_ref = i.control_ref, objective = i.objective, procedure_text = i.procedure_text,
      method = i.method, test_type = i.test_type, entity_ids = i.entity_ids, engagement_ref = i.engagement_ref,
      period_start_on = i.period_start_on, period_end_on = i.period_end_on, population_size = i.population_size,
      sample_size = i.sample_size, tester = i.tester, reviewer = i.reviewer, due_on = i.due_on, status = i.status,
      conclusion = i.conclusion, custom = i.custom, updated_at = now(), version = t.version + 1
    from incoming i
    where not i.is_new and t.id = i.id
      and (
        t.title, t.control_ref, t.objective, t.procedure_text, t.method, t.test_type, t.entity_ids, t.engagement_ref,
        t.period_start_on, t.period_end_on, t.population_size, t.sample_size, t.tester, t.reviewer, t.due_on, t.status,
        t.conclusion, t.custom
      ) is distinct from (
        i.title, i.control_ref, i.objective, i.procedure_text, i.method, i.test_type, i.entity_ids, i.engagement_ref,
        i.period_start_on, i.period_end_on, i.population_size, i.sample_size, i.tester, i.reviewer, i.due_on, i.status,
        i.conclusion, i.custom
      )
    returning 1 as one
  )
  select
    (select count(*)::integer from made) as created,
    (select count(*)::integer from changed) as updated`,
)
