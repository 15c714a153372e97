import { statement } from '../sql/store.ts'
import { importRules, parseScope, seqsADepth } from './rules.ts'
import type { Import, Tx } from './store.ts'

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
