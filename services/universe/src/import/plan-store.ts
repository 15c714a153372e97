import type { Connector } from '@postern/contracts'
import type { ImportPlan } from '@postern/contracts/internal'
import { getRow, statement } from '../sql/store.ts'
import { currentRowsSql } from '../current-rows/store.ts'
import { byDataset } from './by-dataset-store.ts'
import { firstMissingSeq, importRules, parseScope, seqsADepth } from './rules.ts'
import type { Import, Tx } from './store.ts'

type MissingPolicy = Connector['missing_policy']

/** Returns whether unsent rows may have changed: their resources were written since, or a sent row has the same key or address. */
export async function isBaselineStale(tx: Tx, { runId, connectorId, scope }: Import, hashes: number): Promise<boolean> {
  const values = [runId, connectorId, scope]
  const [hashed, repeated, addresses] = await Promise.all([
    tx.query<{ total: number }>(countHashed([connectorId, scope])),
    tx.query<{ found: boolean }>(repeatsKnown(values)),
    scope === 'people' ? tx.query<{ found: boolean }>(repeatsAddress(values)) : [],
  ])
  return getRow(hashed).total < hashes || getRow(repeated).found || addresses[0]?.found === true
}

/** Returns whether an unchanged resource was written since. Call it after missing rows are found. */
export async function hasLostHashes(tx: Tx, { connectorId, scope }: Import, hashes: number): Promise<boolean> {
  return getRow(await tx.query<{ total: number }>(countHashed([connectorId, scope]))).total < hashes
}

const countHashed = statement(
  'universe_count_source_hashes',
  `select count(*)::integer as total
  from universe.source_row s
  where s.connector_id = $1::text and s.scope = $2::text and s.hash is not null`,
)
const isUnchanged = `s.hash is not null and not exists (
      select from universe.import_row g where g.run_id = $1::uuid and g.seq < 0 and g.source_key = s.source_key
    )`
const repeatsKnown = statement(
  'universe_repeats_unchanged_row',
  `select exists (
    select
    from universe.import_row r
    join universe.source_row s on s.connector_id = $2::text and s.scope = $3::text and s.source_key = r.source_key
    where r.run_id = $1::uuid and r.seq > 0 and ${isUnchanged}
  ) as found`,
)
const repeatsAddress = statement(
  'universe_repeats_unchanged_address',
  `select exists (
    select
    from universe.import_row r
    join universe.person p on p.email = lower(r.content ->> 'email') and p.active and p.external_id <> r.source_key
    join universe.source_row s on s.connector_id = $2::text and s.scope = $3::text and s.source_key = p.external_id
    where r.run_id = $1::uuid and r.op = 'create' and r.content -> 'active' is distinct from 'false' and ${isUnchanged}
  ) as found`,
)

/** Rejects staged rows with repeated keys or addresses, unknown parents, circles or too much depth. */
export async function rejectInvalidRows(tx: Tx, { runId, scope }: Import): Promise<void> {
  const { dataset, hierarchy } = parseScope(scope)
  const { keyField, parentField, maxDepth, uniqueField } = importRules[dataset]
  await tx.execute(rejectRepeated([runId, keyField]))
  if (uniqueField !== null) await tx.execute(rejectAddresses([runId, scope, uniqueField]))
  if (parentField === null) return
  const rest = hierarchy === undefined ? [] : [hierarchy]
  await tx.execute((hierarchy === undefined ? rejectEntities : rejectNodes)([runId, maxDepth, parentField, ...rest]))
}

const errorSql = (field: string, code: string, message: string, excerpt: string): string =>
  `jsonb_build_array(jsonb_build_object('field', ${field}, 'code', ${code}, 'message', ${message}, 'excerpt', left(${excerpt}, 80)))`

const rejectRepeated = statement(
  'universe_reject_repeated_keys',
  `with first as materialized (
    select r.source_key, min(r.seq) as seq
    from universe.import_row r
    where r.run_id = $1::uuid and r.op = 'create'
    group by r.source_key
    having count(*) > 1
  )
  update universe.import_row r
  set op = 'invalid',
    errors = ${errorSql('$2::text', `'duplicate'`, `'is already the key of row ' || (first.seq - ${seqsADepth})`, 'r.source_key')}
  from first
  where r.run_id = $1::uuid and r.op = 'create' and r.source_key = first.source_key and r.seq <> first.seq`,
)

// Only one active person can have an address. A person whom a connector delivered before keeps it.
const rejectAddresses = statement(
  'universe_reject_repeated_addresses',
  `with active as materialized (
    select r.seq, r.source_key, lower(r.content ->> 'email') as email
    from universe.import_row r
    where r.run_id = $1::uuid and r.op = 'create' and r.content ? 'email' and r.content -> 'active' is distinct from 'false'
  ),
  shared as (
    select active.email from active group by active.email having count(*) > 1
  ),
  ranked as (
    select active.seq, active.email, first_value(active.seq) over (
      partition by active.email
      order by exists (
        select from universe.source_row s where s.scope = $2::text and s.source_key = active.source_key
      ) desc, active.seq
    ) as first
    from shared
    join active on active.email = shared.email
  )
  update universe.import_row r
  set op = 'invalid',
    errors = ${errorSql('$3::text', `'duplicate'`, `'is already the address of row ' || (ranked.first - ${seqsADepth})`, 'ranked.email')}
  from ranked
  where r.run_id = $1::uuid and r.seq = ranked.seq and ranked.seq <> ranked.first`,
)

// A second walk distinguishes rows that are too deep or below unknown parents from circles. The database checks the whole tree later.
const rejectMisplaced = (stored: string): string => `
  with recursive tree as materialized (
    select r.seq, r.source_key, r.parent_key
    from universe.import_row r
    where r.run_id = $1::uuid and r.op = 'create'
  ),
  top as materialized (
    select tree.seq, tree.source_key, tree.parent_key is null or ${stored} as is_placed
    from tree
    where not exists (select from tree above where above.source_key = tree.parent_key)
  ),
  placed as (
    select top.seq, top.source_key, 1 as depth from top where top.is_placed
    union all
    select child.seq, child.source_key, placed.depth + 1
    from placed
    join tree child on child.parent_key = placed.source_key
    where placed.depth <= $2::integer
  ),
  hanging as (
    select top.seq, top.source_key, 'unknown_parent' as code from top where not top.is_placed
    union
    select placed.seq, placed.source_key, 'too_deep' from placed where placed.depth > $2::integer
    union
    select child.seq, child.source_key, hanging.code
    from hanging
    join tree child on child.parent_key = hanging.source_key
  ),
  fault as (
    select tree.seq, tree.parent_key, coalesce(hanging.code, 'cycle') as code
    from tree
    left join placed on placed.seq = tree.seq
    left join hanging on hanging.seq = tree.seq
    where placed.depth is null or placed.depth > $2::integer
  ),
  decided as (
    select fault.seq, fault.seq as new_seq, fault.parent_key, fault.code from fault
    union all
    select placed.seq, placed.seq + (placed.depth - 1) * ${seqsADepth}, null, null
    from placed
    where placed.depth between 2 and $2::integer
      and exists (select from tree child join tree above on above.source_key = child.parent_key where above.seq > child.seq)
  )
  update universe.import_row r
  set
    seq = decided.new_seq,
    op = case when decided.code is null then r.op else 'invalid' end,
    errors = case when decided.code is not null then ${errorSql(
      '$3::text',
      'decided.code',
      `case decided.code
          when 'too_deep' then 'would make the tree more than ' || $2::integer || ' levels deep'
          when 'unknown_parent' then 'names no valid parent: the parent, or a row above it, is missing or invalid'
          else 'would put this row above itself'
        end`,
      'decided.parent_key',
    )} end
  from decided
  where r.run_id = $1::uuid and r.seq = decided.seq`
const rejectEntities = statement(
  'universe_reject_misplaced_entities',
  rejectMisplaced(`exists (select from universe.entity stored where stored.external_id = tree.parent_key)`),
)
const rejectNodes = statement(
  'universe_reject_misplaced_nodes',
  rejectMisplaced(
    `exists (
      select
      from universe.hierarchy h
      join universe.node stored on stored.tenant_id = h.tenant_id and stored.hierarchy_id = h.id
      where h.key = $4::text and stored.node_key = tree.parent_key
    )`,
  ),
)

const comparedAtOnce = 20_000

/** Compares the next staged rows with the stored ones. Returns the last seq, or undefined if none is left. */
export async function compareRows(tx: Tx, { runId, scope }: Import, after: number): Promise<number | undefined> {
  const [row] = await tx.query<{ last: number | null }>(lastCompared([runId, after, comparedAtOnce]))
  const last = row?.last ?? undefined
  if (last === undefined) return undefined
  const { statusField, inactive, parentField } = importRules[parseScope(scope).dataset]
  await tx.execute(compare(scope, [runId, after, last, statusField, JSON.stringify(inactive), parentField]))
  return last
}

const lastCompared = statement(
  'universe_last_compared_row',
  `select max(next.seq) as last
  from (
    select r.seq
    from universe.import_row r
    where r.run_id = $1::uuid and r.op = 'create' and r.seq > $2::integer
    order by r.seq
    limit $3::integer
  ) as next`,
)

const compare = byDataset(
  'universe_compare',
  (dataset) => `
  with wanted as materialized (
    select r.seq, r.source_key as key, r.content
    from universe.import_row r
    where r.run_id = $1::uuid and r.op = 'create' and r.seq > $2::integer and r.seq <= $3::integer
  ),
  stored as materialized (${currentRowsSql(dataset, 'wanted', '$7::text')})
  update universe.import_row r
  set
    op = case
      when stored.row = wanted.content then 'keep'
      when stored.row -> $4::text = $5::jsonb and wanted.content -> $4::text is distinct from $5::jsonb then 'reactivate'
      when stored.row -> $4::text is distinct from $5::jsonb and wanted.content -> $4::text = $5::jsonb then 'deactivate'
      when stored.row -> $6::text is distinct from wanted.content -> $6::text then 'move'
      else 'update'
    end,
    before = nullif(stored.row, wanted.content)
  from wanted
  join stored on stored.key = wanted.key
  where r.run_id = $1::uuid and r.seq = wanted.seq`,
)

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
