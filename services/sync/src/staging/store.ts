import type { Statement, Tx } from '@postern/tenant-db'

export type { Tx } from '@postern/tenant-db'

function statement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values })
}

/** A row of a source on its way into the database. */
export interface StagedRow {
  readonly row: number
  readonly key: string | undefined
  readonly parent: string | undefined
  /** JSON of the row as the universe would take it; undefined where it cannot be. */
  readonly content: string | undefined
}

/** Something that is wrong with a row, for the owner of the data. */
export interface StagedError {
  readonly row: number | null
  readonly key: string | null
  readonly field: string | null
  readonly code: string
  readonly message: string
  readonly excerpt: string | null
}

const unstageRows = statement('sync_unstage', 'delete from sync.staged_row s where s.run_id = $1')
const forgetErrors = statement('sync_forget_errors', 'delete from sync.run_error e where e.run_id = $1')
const forgetChanges = statement('sync_forget_changes', 'delete from sync.run_change c where c.run_id = $1')

/** Removes what an attempt before has left of a run: nothing of it was applied. */
export async function clearPlan(tx: Tx, runId: string): Promise<void> {
  await Promise.all([
    tx.execute(unstageRows([runId])),
    tx.execute(forgetErrors([runId])),
    tx.execute(forgetChanges([runId])),
  ])
}

const clearStaged = statement(
  'sync_clear_staged',
  `delete from sync.staged_row s
  where (s.tenant_id, s.run_id, s.row) in (
    select old.tenant_id, old.run_id, old.row
    from sync.staged_row old
    join sync.run r on r.tenant_id = old.tenant_id and r.id = old.run_id
    where r.connector_id = $1 and r.status in ('succeeded', 'partial', 'failed', 'cancelled')
    limit 50000
  )`,
)

/** Removes rows of the connector's runs that have ended, at most 50,000 of them; answers how many. */
export async function clearEndedRuns(tx: Tx, connectorId: string): Promise<number> {
  return await tx.execute(clearStaged([connectorId]))
}

// The hash is over what jsonb makes of the content, in which equal rows are equal.
const stage = statement(
  'sync_stage',
  `insert into sync.staged_row (tenant_id, run_id, row, source_key, parent_key, content, hash, state, depth)
  select
    (select tenancy.tenant_id()), $1::uuid, given.row, given.key, given.parent, made.content,
    sha256(convert_to(made.content::text, 'UTF8')),
    case when given.content is null then 'invalid' else 'valid' end,
    case when given.parent is null then 1 end
  from unnest($2::integer[], $3::text[], $4::text[], $5::text[]) as given (row, key, parent, content)
  cross join lateral (select given.content::jsonb as content) as made`,
)

export async function stageRows(tx: Tx, runId: string, rows: readonly StagedRow[]): Promise<void> {
  await tx.execute(
    stage([
      runId,
      rows.map(({ row }) => row),
      rows.map(({ key }) => key ?? null),
      rows.map(({ parent }) => parent ?? null),
      rows.map(({ content }) => content ?? null),
    ]),
  )
}

const keepErrors = statement(
  'sync_keep_errors',
  `insert into sync.run_error (tenant_id, run_id, seq, row, source_key, field, code, message, value_excerpt)
  select
    (select tenancy.tenant_id()), $1::uuid,
    coalesce((select max(e.seq) from sync.run_error e where e.run_id = $1::uuid), 0) + given.at,
    given.row, given.key, given.field, given.code, given.message, given.excerpt
  from unnest($2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
    with ordinality as given (row, key, field, code, message, excerpt, at)`,
)

export async function insertErrors(tx: Tx, runId: string, errors: readonly StagedError[]): Promise<void> {
  if (errors.length === 0) return
  await tx.execute(
    keepErrors([
      runId,
      errors.map(({ row }) => row),
      errors.map(({ key }) => key),
      errors.map(({ field }) => field),
      errors.map(({ code }) => code),
      errors.map(({ message }) => message),
      errors.map(({ excerpt }) => excerpt),
    ]),
  )
}

// Of rows with one key the first stays. Served by staged_row_by_key.
const duplicates = statement(
  'sync_refuse_duplicates',
  `with again as (
    select s.row, s.source_key, first_value(s.row) over (partition by s.source_key order by s.row) as first
    from sync.staged_row s
    where s.run_id = $1::uuid and s.state = 'valid'
  ),
  refused as (
    update sync.staged_row s
    set state = 'invalid'
    from again
    where s.run_id = $1::uuid and s.row = again.row and again.first <> again.row
    returning s.row, s.source_key, again.first
  )
  insert into sync.run_error (tenant_id, run_id, seq, row, source_key, field, code, message, value_excerpt)
  select
    (select tenancy.tenant_id()), $1::uuid,
    coalesce((select max(e.seq) from sync.run_error e where e.run_id = $1::uuid), 0)
      + row_number() over (order by refused.row),
    refused.row, refused.source_key, $2::text, 'duplicate', 'is the key of row ' || refused.first || ' already',
    left(refused.source_key, 80)
  from refused`,
)

/** Refuses rows whose key another row before them has; answers how many. */
export async function refuseDuplicates(tx: Tx, runId: string, keyField: string): Promise<number> {
  return await tx.execute(duplicates([runId, keyField]))
}

// As above, for addresses of people.
const duplicateEmails = statement(
  'sync_refuse_duplicate_emails',
  `with again as (
    select s.row, s.content ->> 'email' as email,
      first_value(s.row) over (partition by s.content ->> 'email' order by s.row) as first
    from sync.staged_row s
    where s.run_id = $1::uuid and s.state = 'valid' and s.content ? 'email'
  ),
  refused as (
    update sync.staged_row s
    set state = 'invalid'
    from again
    where s.run_id = $1::uuid and s.row = again.row and again.first <> again.row
    returning s.row, s.source_key, again.first, again.email
  )
  insert into sync.run_error (tenant_id, run_id, seq, row, source_key, field, code, message, value_excerpt)
  select
    (select tenancy.tenant_id()), $1::uuid,
    coalesce((select max(e.seq) from sync.run_error e where e.run_id = $1::uuid), 0)
      + row_number() over (order by refused.row),
    refused.row, refused.source_key, 'email', 'duplicate', 'is the address of row ' || refused.first || ' already',
    left(refused.email, 80)
  from refused`,
)

export async function refuseDuplicateEmails(tx: Tx, runId: string): Promise<number> {
  return await tx.execute(duplicateEmails([runId]))
}

// Served by staged_row_by_parent and staged_row_by_key.
const outside = statement(
  'sync_outside_parents',
  `select distinct s.parent_key as key
  from sync.staged_row s
  where s.run_id = $1::uuid and s.state = 'valid' and s.parent_key is not null and s.parent_key > $2::text
    and not exists (
      select
      from sync.staged_row parent
      where parent.run_id = s.run_id and parent.source_key = s.parent_key and parent.state = 'valid'
    )
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

/** Whether any row names a parent. */
export async function hasParents(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ found: boolean }>(hasTree([runId]))
  return row?.found === true
}

// Walks down from the rows whose depth is settled. A second walk, from the rows whose parent is nowhere, tells what hangs
// below a missing row from what hangs in a circle.
const placeTree = statement(
  'sync_place_rows',
  `with recursive placed as (
    select s.row, s.source_key, 1 as depth
    from sync.staged_row s
    where s.run_id = $1::uuid and s.state = 'valid' and s.depth = 1
    union all
    select child.row, child.source_key, placed.depth + 1
    from placed
    join sync.staged_row child
      on child.run_id = $1::uuid and child.state = 'valid' and child.depth is null and child.parent_key = placed.source_key
    where placed.depth <= $2::integer
  )
  update sync.staged_row s
  set depth = placed.depth
  from placed
  where s.run_id = $1::uuid and s.row = placed.row and s.depth is null`,
)

const refuseMisplaced = statement(
  'sync_refuse_misplaced',
  `with recursive orphan as (
    select s.row, s.source_key
    from sync.staged_row s
    where s.run_id = $1::uuid and s.state = 'valid' and s.depth is null
      and not exists (
        select
        from sync.staged_row parent
        where parent.run_id = s.run_id and parent.source_key = s.parent_key and parent.state = 'valid'
      )
    union
    select child.row, child.source_key
    from orphan
    join sync.staged_row child
      on child.run_id = $1::uuid and child.state = 'valid' and child.depth is null
      and child.parent_key = orphan.source_key
  ),
  refused as (
    update sync.staged_row s
    set state = 'invalid'
    where s.run_id = $1::uuid and s.state = 'valid' and (s.depth is null or s.depth > $2::integer)
    returning s.row, s.source_key, s.parent_key,
      case
        when s.depth > $2::integer then 'too_deep'
        when exists (select from orphan where orphan.row = s.row) then 'unknown_parent'
        else 'cycle'
      end as code
  )
  insert into sync.run_error (tenant_id, run_id, seq, row, source_key, field, code, message, value_excerpt)
  select
    (select tenancy.tenant_id()), $1::uuid,
    coalesce((select max(e.seq) from sync.run_error e where e.run_id = $1::uuid), 0)
      + row_number() over (order by refused.row),
    refused.row, refused.source_key, $3::text, refused.code,
    case refused.code
      when 'too_deep' then 'would make the tree more than ' || $2::integer || ' levels deep'
      when 'unknown_parent' then 'is the key of no row that can be taken in, or hangs below one that cannot'
      else 'would put this row above itself'
    end,
    left(refused.parent_key, 80)
  from refused`,
)

/** Gives every row its depth and refuses what no root leads to; answers how many. */
export async function placeRows(tx: Tx, runId: string, maxDepth: number, parentField: string): Promise<number> {
  await tx.execute(placeTree([runId, maxDepth]))
  return await tx.execute(refuseMisplaced([runId, maxDepth, parentField]))
}

const countStates = statement(
  'sync_count_staged',
  `select
    count(*) filter (where s.state = 'valid')::integer as valid,
    count(*) filter (where s.state = 'invalid')::integer as invalid
  from sync.staged_row s
  where s.run_id = $1::uuid`,
)

export async function countStaged(
  tx: Tx,
  runId: string,
): Promise<{ readonly valid: number; readonly invalid: number }> {
  const [row] = await tx.query<{ valid: number; invalid: number }>(countStates([runId]))
  return row ?? { valid: 0, invalid: 0 }
}
