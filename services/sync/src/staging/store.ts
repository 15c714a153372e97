import { type Tx, arrayLiteral, getRow, statement } from '@postern/tenant-db'
import { keepRefused } from './error-store.ts'

export type { Tx } from '@postern/tenant-db'

/** A row of a source on its way into the database. */
export interface StagedRow {
  readonly row: number
  readonly key: string | undefined
  readonly parent: string | undefined
  /** JSON of the row as the universe would take it; undefined where it cannot be. */
  readonly content: string | undefined
  /** By which the row is known again; undefined where it cannot be. */
  readonly hash: string | undefined
}

const unstageRows = statement('sync_unstage', 'delete from sync.staged_row s where s.run_id = $1')
const unstageBlocks = statement('sync_unstage_blocks', 'delete from sync.staged_block b where b.run_id = $1')
const forgetErrors = statement('sync_forget_errors', 'delete from sync.run_error e where e.run_id = $1')
const forgetCreations = statement('sync_forget_creations', 'delete from sync.run_creation b where b.run_id = $1::uuid')
const forgetChanges = statement('sync_forget_changes', 'delete from sync.run_change c where c.run_id = $1')

/** Removes what an attempt before has left of a run: nothing of it was applied. */
export async function clearPlan(tx: Tx, runId: string): Promise<void> {
  await Promise.all([
    tx.execute(unstageRows([runId])),
    tx.execute(unstageBlocks([runId])),
    tx.execute(forgetErrors([runId])),
    tx.execute(forgetChanges([runId])),
    tx.execute(forgetCreations([runId])),
  ])
}

// What waited when its connector was retired has no next run. Served by run_connector and run_by_status.
const ended = `select r.id from sync.run r
    where r.connector_id = $1 and r.status in ('succeeded', 'partial', 'failed', 'cancelled')
    union all
    select r.id from sync.run r
    join sync.connector c on c.tenant_id = r.tenant_id and c.id = r.connector_id
    where r.status = 'cancelled' and c.retired_at is not null`
const clearStaged = statement(
  'sync_clear_staged',
  `delete from sync.staged_row s
  where (s.tenant_id, s.run_id, s.row) in (
    select old.tenant_id, old.run_id, old.row from sync.staged_row old where old.run_id in (${ended}) limit 50000
  )`,
)
// Of what was planned they are the changes.
const clearCreations = statement(
  'sync_clear_creations',
  `delete from sync.run_creation b
  where b.run_id in (${ended}) and b.run_id in (select r.id from sync.run r where r.diff_hash is null)`,
)
const clearBlocks = statement('sync_clear_blocks', `delete from sync.staged_block b where b.run_id in (${ended})`)

// Of 60 KiB each.
const clearUploads = statement(
  'sync_clear_uploads',
  `delete from sync.upload_chunk u
  where (u.tenant_id, u.upload_id, u.index) in (
    select old.tenant_id, old.upload_id, old.index
    from sync.upload_chunk old
    where old.upload_id in (select r.upload_id from sync.run r where r.id in (${ended}))
    limit 1000
  )`,
)

/**
 * Removes rows of runs that have ended, and what is left of their files, the connector's and those of retired ones: at most 50,000 of
 * each kind, and 1000 chunks of files. Answers how many.
 */
export async function clearEndedRuns(tx: Tx, connectorId: string): Promise<number> {
  const counts = await Promise.all(
    [clearStaged, clearBlocks, clearCreations, clearUploads].map(
      async (clear) => await tx.execute(clear([connectorId])),
    ),
  )
  return counts.reduce((total, count) => total + count, 0)
}

const stage = statement(
  'sync_stage',
  `insert into sync.staged_row (tenant_id, run_id, row, source_key, parent_key, content, hash, state, depth)
  select
    (select tenancy.tenant_id()), $1::uuid, given.row, given.key, given.parent, given.content::jsonb, given.hash,
    case when given.content is null then 'invalid' else 'valid' end,
    case when given.parent is null then 1 end
  from unnest($2::integer[], $3::text[], $4::text[], string_to_array($5::text, E'\\n', ''), $6::bytea[])
    as given (row, key, parent, content, hash)`,
)

export async function stageRows(tx: Tx, runId: string, rows: readonly StagedRow[]): Promise<void> {
  if (rows.length === 0) return
  await tx.execute(
    stage([
      runId,
      arrayLiteral(rows.map(({ row }) => row)),
      arrayLiteral(rows.map(({ key }) => key)),
      arrayLiteral(rows.map(({ parent }) => parent)),
      // JSON that was written holds no line feed, and is not empty.
      rows.map(({ content }) => content ?? '').join('\n'),
      arrayLiteral(rows.map(({ hash }) => (hash === undefined ? undefined : Buffer.from(hash, 'latin1')))),
    ]),
  )
}

// What a run has staged: rows that are compared, and known ones.
const known = `
    select one.row, one.key as source_key, one.also
    from sync.staged_block b
    cross join lateral unnest(b.rows, b.keys, b.also) as one (row, key, also)
    where b.run_id = $1::uuid`

// Of rows with one key the first stays; a known one is always the first.
const duplicates = statement(
  'sync_refuse_duplicates',
  `with every as (
    select s.row, s.source_key from sync.staged_row s where s.run_id = $1::uuid and s.state = 'valid'
    union all
    select known.row, known.source_key from (${known}) as known
  ),
  again as (
    select every.row, first.row as first
    from (
      select every.source_key, min(every.row) as row from every group by every.source_key having count(*) > 1
    ) as first
    join every on every.source_key = first.source_key
  ),
  refused as (
    update sync.staged_row s
    set state = 'invalid'
    from again
    where s.run_id = $1::uuid and s.row = again.row and again.first <> again.row
    returning s.row, s.source_key, again.first
  )
  ${keepRefused(`$2::text, 'duplicate', 'is the key of row ' || refused.first || ' already',
    left(refused.source_key, 80)`)}`,
)

/** Refuses rows whose key another row before them has. */
export async function refuseDuplicates(tx: Tx, runId: string, keyField: string): Promise<void> {
  await tx.execute(duplicates([runId, keyField]))
}

// As above, for addresses of active people. Known rows come first, then those that the connector has brought before.
// The universe decides about inactive people, who keep an address only while nobody else claims it.
const duplicateEmails = statement(
  'sync_refuse_duplicate_emails',
  `with every as (
    select s.row, s.source_key as key, s.content ->> 'email' as email, false as is_known
    from sync.staged_row s
    where s.run_id = $1::uuid and s.state = 'valid' and s.content ? 'email' and s.content -> 'active' is distinct from 'false'
    union all
    select known.row, known.source_key, lower(known.also), true
    from (${known}) as known
    where known.also is not null
  ),
  shared as (
    select every.email from every group by every.email having count(*) > 1
  ),
  ranked as (
    select every.*, exists (
      select from sync.known_row k where k.scope = $2::text and k.source_key = every.key
    ) as is_stored
    from shared
    join every on every.email = shared.email
  ),
  again as (
    select ranked.row, ranked.email, first_value(ranked.row) over (
      partition by ranked.email
      order by ranked.is_known desc, ranked.is_stored desc, ranked.row
    ) as first
    from ranked
  ),
  refused as (
    update sync.staged_row s
    set state = 'invalid'
    from again
    where s.run_id = $1::uuid and s.row = again.row and again.first <> again.row
    returning s.row, s.source_key, again.first, again.email
  )
  ${keepRefused(`'email', 'duplicate', 'is the address of row ' || refused.first || ' already',
    left(refused.email, 80)`)}`,
)

/** `scope`: of people. */
export async function refuseDuplicateEmails(tx: Tx, runId: string, scope: string): Promise<void> {
  await tx.execute(duplicateEmails([runId, scope]))
}

const outside = statement(
  'sync_outside_parents',
  `select wanted.key
  from (
    select distinct s.parent_key as key
    from sync.staged_row s
    where s.run_id = $1::uuid and s.state = 'valid' and s.parent_key is not null and s.parent_key > $2::text
  ) as wanted
  where not exists (
      select from sync.staged_row s where s.run_id = $1::uuid and s.state = 'valid' and s.source_key = wanted.key
    )
    and not exists (select from (${known}) as known where known.source_key = wanted.key)
  order by 1
  limit $3`,
)

/** Keys of parents that are no valid row of the run, in their order, those after `after`. */
export async function listOutsideParents(tx: Tx, runId: string, after: string, limit: number): Promise<string[]> {
  const rows = await tx.query<{ key: string }>(outside([runId, after, limit]))
  return rows.map(({ key }) => key)
}

// A row directly below a stored one begins a tree of its own in this run.
const settleStored = statement(
  'sync_settle_stored_parents',
  `update sync.staged_row s
  set depth = 1
  where s.run_id = $1::uuid and s.state = 'valid' and s.parent_key = any ($2::text[])
    and not exists (
      select
      from sync.staged_row parent
      where parent.run_id = s.run_id and parent.source_key = s.parent_key and parent.state = 'valid'
    )`,
)

export async function settleBelowStored(tx: Tx, runId: string, keys: readonly string[]): Promise<void> {
  await tx.execute(settleStored([runId, keys]))
}

const hasTree = statement(
  'sync_has_parents',
  `select exists (
    select from sync.staged_row s where s.run_id = $1::uuid and s.state = 'valid' and s.parent_key is not null
  ) as found`,
)

/** Whether any row that is compared names a parent. */
export async function hasParents(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ found: boolean }>(hasTree([runId]))
  return row?.found === true
}

/**
 * SQL: how deep the rows of run `$1` stand in the tree that they form, down to one level more than `$2`: walked down from those
 * whose depth is settled. A known row whose parent the source no longer has hangs below a stored one.
 */
const placed = `
  known as materialized (${known}),
  tree as materialized (
    select s.row, s.source_key, s.parent_key, s.depth
    from sync.staged_row s
    where s.run_id = $1::uuid and s.state = 'valid'
    union all
    select known.row, known.source_key, known.also, null
    from known
  ),
  known_top as (
    select known.row
    from known
    left join tree above on above.source_key = known.also
    where above.source_key is null
  ),
  placed as (
    select tree.row, tree.source_key, 1 as depth
    from tree
    where tree.depth = 1 or tree.row in (select known_top.row from known_top)
    union all
    select child.row, child.source_key, placed.depth + 1
    from placed
    join tree child on child.depth is null and child.parent_key = placed.source_key
    where placed.depth <= $2::integer
  )`

// A second walk, from the rows whose parent is nowhere and from those below the last level, tells what hangs there from what hangs in a circle.
const refuseMisplaced = statement(
  'sync_refuse_misplaced',
  `with recursive ${placed},
  hanging as (
    select tree.row, tree.source_key, 'unknown_parent' as code
    from tree
    where tree.depth is null and tree.parent_key is not null
      and not exists (select from tree above where above.source_key = tree.parent_key)
      and not exists (select from known_top where known_top.row = tree.row)
    union
    select placed.row, placed.source_key, 'too_deep' from placed where placed.depth > $2::integer
    union
    select child.row, child.source_key, hanging.code
    from hanging
    join tree child on child.depth is null and child.parent_key = hanging.source_key
  ),
  fault as (
    select tree.row,
      coalesce(hanging.code, 'cycle') as code
    from tree
    left join placed on placed.row = tree.row
    left join hanging on hanging.row = tree.row
    where placed.depth is null or placed.depth > $2::integer
  ),
  refused as (
    update sync.staged_row s
    set state = 'invalid'
    from fault
    where s.run_id = $1::uuid and s.state = 'valid' and s.row = fault.row
    returning s.row, s.source_key, s.parent_key, fault.code
  ),
  settled as (
    update sync.staged_row s
    set depth = placed.depth
    from placed
    where s.run_id = $1::uuid and s.state = 'valid' and s.row = placed.row and s.depth is null and placed.depth <= $2::integer
      and exists (select from tree child join tree above on above.source_key = child.parent_key where above.row > child.row)
  )
  ${keepRefused(`$3::text, refused.code,
    case refused.code
      when 'too_deep' then 'would make the tree more than ' || $2::integer || ' levels deep'
      when 'unknown_parent' then 'is the key of no row that can be taken in, or hangs below one that cannot'
      else 'would put this row above itself'
    end,
    left(refused.parent_key, 80)`)}`,
)

/** Refuses what no root leads to. Settles how deep the others stand, unless parents come before their children anyway. */
export async function refuseMisplacedRows(tx: Tx, runId: string, maxDepth: number, parentField: string): Promise<void> {
  await tx.execute(refuseMisplaced([runId, maxDepth, parentField]))
}

const countStates = statement(
  'sync_count_staged',
  `select
    count(*) filter (where s.state = 'valid')::integer as valid,
    count(*) filter (where s.state = 'invalid')::integer as invalid,
    (
      select coalesce(sum(cardinality(b.rows)), 0)::integer from sync.staged_block b where b.run_id = $1::uuid
    ) + (
      select coalesce(sum(cardinality(b.rows)), 0)::integer from sync.run_creation b where b.run_id = $1::uuid
    ) as known
  from sync.staged_row s
  where s.run_id = $1::uuid`,
)

export async function countStaged(
  tx: Tx,
  runId: string,
): Promise<{ readonly valid: number; readonly invalid: number }> {
  const row = getRow(await tx.query<{ valid: number; invalid: number; known: number }>(countStates([runId])))
  return { valid: row.valid + row.known, invalid: row.invalid }
}

const countKeyless = statement(
  'sync_count_keyless',
  'select count(*)::integer as total from sync.staged_row s where s.run_id = $1::uuid and s.source_key is null',
)

/** How many rows have no key that can be read: each may be any row that seems to be gone. */
export async function countKeylessRows(tx: Tx, runId: string): Promise<number> {
  const [row] = await tx.query<{ total: number }>(countKeyless([runId]))
  return row?.total ?? 0
}
