import type { Connector } from '@postern/contracts'
import type { ImportPlan } from '@postern/contracts/internal'
import { getRow, statement } from '../sql/store.ts'
import { currentRowsSql } from '../current-rows/store.ts'
import { byDataset } from './by-dataset-store.ts'
import { firstMissingSeq, importRules, parseScope } from './rules.ts'
import type { Import, Tx } from './store.ts'

type MissingPolicy = Connector['missing_policy']
type Missing = Pick<ImportPlan, 'missing' | 'lately_missing' | 'gone' | 'drafts' | 'keyless'>

/**
 * Plans what happens to missing rows. Nothing happens if a row has no readable key, because it could be any of them. `isComplete`:
 * all rows were sent.
 */
export async function planMissingRows(
  tx: Tx,
  { runId, connectorId, scope }: Import,
  { isComplete, policy }: { readonly isComplete: boolean; readonly policy: MissingPolicy },
): Promise<Missing> {
  await tx.execute(insertMissing([runId, connectorId, scope, isComplete, firstMissingSeq]))
  await tx.execute(forgetGone([runId]))
  await tx.execute(decideMissing([runId, connectorId, scope]))
  const { missing, lately, keyless } = getRow(
    await tx.query<{ missing: number; lately: number; keyless: number }>(countMissing([runId, connectorId, scope])),
  )
  const counts = { missing, lately_missing: lately, keyless, gone: 0, drafts: 0 }
  if (keyless > 0) {
    await tx.execute(forgetMissing([runId]))
    return counts
  }
  const found = policy === 'deactivate' ? await planDeactivations(tx, { runId, scope }) : {}
  await tx.execute(forgetOldMissing([runId, connectorId, scope]))
  return { ...counts, ...found }
}

// Served by source_row_by_connector.
const insertMissing = statement(
  'universe_insert_missing_rows',
  `insert into universe.import_row (tenant_id, run_id, seq, op, source_key)
  select (select tenancy.tenant_id()), $1::uuid, $5::integer + row_number() over (order by s.source_key), 'gone', s.source_key
  from universe.source_row s
  where s.connector_id = $2::text and s.scope = $3::text
    and (
      $4::boolean or s.hash is null
      or exists (select from universe.import_row g where g.run_id = $1::uuid and g.seq < 0 and g.source_key = s.source_key)
    )
    and not exists (select from universe.import_row r where r.run_id = $1::uuid and r.seq > 0 and r.source_key = s.source_key)`,
)
const forgetGone = statement(
  'universe_forget_gone_rows',
  'delete from universe.import_row r where r.run_id = $1::uuid and r.seq < 0',
)

/** SQL: whether another connector delivers the key. `offset 0` makes PostgreSQL look it up per row instead of joining. */
export const isBroughtByOthers = (key: string, scope: string, connector: string, end = ''): string => `exists (
      select
      from universe.source_row other
      left join universe.source_connector retired
        on retired.tenant_id = other.tenant_id and retired.connector_id = other.connector_id and retired.retired_at is not null
      where other.scope = ${scope} and other.source_key = ${key} and other.connector_id <> ${connector}
        and other.missing_since is null and retired.connector_id is null
      ${end}
    )`

const decideMissing = statement(
  'universe_decide_missing_rows',
  `update universe.import_row r
  set op = case when ${isBroughtByOthers('r.source_key', '$3::text', '$2::text')} then 'leave' else 'miss' end
  where r.run_id = $1::uuid and r.op = 'gone'`,
)
const countMissing = statement(
  'universe_count_missing_rows',
  `select
    count(*) filter (where r.op = 'miss')::integer as missing,
    count(*) filter (where r.op = 'miss' and s.missing_since is null)::integer as lately,
    (
      select count(*)::integer from universe.import_row u where u.run_id = $1::uuid and u.op = 'invalid' and u.source_key is null
    ) as keyless
  from universe.import_row r
  join universe.source_row s on s.connector_id = $2::text and s.scope = $3::text and s.source_key = r.source_key
  where r.run_id = $1::uuid and r.op in ('miss', 'leave')`,
)
const forgetMissing = statement(
  'universe_forget_missing_rows',
  `delete from universe.import_row r where r.run_id = $1::uuid and r.op in ('miss', 'leave')`,
)
const forgetOldMissing = statement(
  'universe_forget_rows_missing_before',
  `delete from universe.import_row r
  using universe.source_row s
  where r.run_id = $1::uuid and r.op = 'miss'
    and s.connector_id = $2::text and s.scope = $3::text and s.source_key = r.source_key and s.missing_since is not null`,
)

async function planDeactivations(
  tx: Tx,
  { runId, scope }: Pick<Import, 'runId' | 'scope'>,
): Promise<Pick<Missing, 'gone' | 'drafts'>> {
  const { statusField, inactive, draft } = importRules[parseScope(scope).dataset]
  if (statusField === null) return { gone: 0, drafts: 0 }
  return getRow(
    await tx.query<{ gone: number; drafts: number }>(
      deactivate(scope, [runId, statusField, JSON.stringify(inactive), draft === null ? null : JSON.stringify(draft)]),
    ),
  )
}

const deactivate = byDataset(
  'universe_plan_deactivations',
  (dataset) => `
  with wanted as materialized (
    select r.seq, r.source_key as key from universe.import_row r where r.run_id = $1::uuid and r.op = 'miss'
  ),
  stored as materialized (${currentRowsSql(dataset, 'wanted', '$5::text')}),
  changed as (
    update universe.import_row r
    set op = 'deactivate', before = stored.row, content = jsonb_set(stored.row, array[$2::text], $3::jsonb)
    from wanted
    join stored on stored.key = wanted.key
    where r.run_id = $1::uuid and r.seq = wanted.seq
      and stored.row -> $2::text is distinct from $3::jsonb and ($4::jsonb is null or stored.row -> $2::text <> $4::jsonb)
    returning 1 as one
  )
  select
    (select count(*)::integer from changed) as gone,
    (select count(*)::integer from stored where stored.row -> $2::text = $4::jsonb) as drafts`,
)
