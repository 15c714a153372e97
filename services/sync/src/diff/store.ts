import type { RunCounts } from '@postern/contracts'
import { type Statement, type Tx, getRow, statement } from '@postern/tenant-db'
import { isNobodyElses, passOn } from './also-brought.ts'
import { appliedUpTo, isApplied } from './applied.ts'
import { lastDepth, seqsADepth } from './seq.ts'

export type { Tx } from '@postern/tenant-db'

/** What is compared: the rows of a run with what the connector, and the universe, are known to hold. */
export interface Comparison {
  readonly runId: string
  readonly connectorId: string
  readonly scope: string
  readonly keyField: string
  readonly parentField: string | null
  readonly statusField: string | null
  readonly inactive: string | boolean | null
  readonly draft: string | null
  readonly uniqueField: string | null
  readonly maxDepth: number
}

// Served by staged_row_pk.
const candidates = statement(
  'sync_list_candidates',
  `select s.row, s.source_key as key
  from sync.staged_row s
  where s.run_id = $1::uuid and s.state = 'valid' and s.row > $2::integer
  order by s.row
  limit $3`,
)

interface Candidate {
  readonly row: number
  readonly key: string
}

/** The next rows that may change something. */
export async function listCandidates(tx: Tx, runId: string, after: number, limit: number): Promise<Candidate[]> {
  return await tx.query<Candidate & { [column: string]: unknown }>(candidates([runId, after, limit]))
}

const opOf = `
  case
    when compared.before is null then 'create'
    when $3::text is not null and compared.before -> $3 = $5::jsonb and compared.after -> $3 is distinct from $5::jsonb
      then 'reactivate'
    when $3::text is not null and compared.before -> $3 is distinct from $5::jsonb and compared.after -> $3 = $5::jsonb
      then 'deactivate'
    when $4::text is not null and compared.before -> $4 is distinct from compared.after -> $4 then 'move'
    else 'update'
  end`

// Rows are read, and changes written, in the order of the source: changes that are applied together then lie together. Served by
// staged_row_pk.
const insertChanges = statement(
  'sync_insert_changes',
  `insert into sync.run_change (tenant_id, run_id, seq, op, source_key, before, after)
  select
    (select tenancy.tenant_id()), $1::uuid, compared.depth * ${seqsADepth} + compared.row,
    ${opOf}, compared.source_key, compared.before, compared.after
  from (
    select s.row, coalesce(s.depth, 1) as depth, s.source_key, given.row as before, s.content as after
    from sync.staged_row s
    left join jsonb_to_recordset($2::jsonb) as given (key text, row jsonb) on given.key = s.source_key
    where s.run_id = $1::uuid and s.state = 'valid' and s.row between $6::integer and $7::integer
      and given.row is distinct from s.content
    order by s.row
  ) as compared`,
)

export interface CurrentRow {
  readonly key: string
  readonly row: object
}

/** Records what the run's rows from `first` to `last` change. `current`: those of them that the universe has, as they are there. */
export async function recordChanges(
  tx: Tx,
  { runId, parentField, statusField, inactive }: Comparison,
  { first, last }: { readonly first: number; readonly last: number },
  current: readonly CurrentRow[],
): Promise<void> {
  const values = [runId, JSON.stringify(current), statusField, parentField, JSON.stringify(inactive), first, last]
  await tx.execute(insertChanges(values))
}

/**
 * SQL: that the source of the run `$3` has the known row `k` no longer; one that is there but cannot be read is not missing.
 */
export const isMissing = `
    and not exists (
      select from sync.staged_row s where s.run_id = $3::uuid and s.source_key = k.source_key
    )
    and not exists (
      select
      from (
        select unnest(b.keys) as key from sync.staged_block b where b.run_id = $3::uuid
        union all
        select unnest(b.keys) from sync.run_creation b where b.run_id = $3::uuid
      ) as same
      where same.key = k.source_key
    )`
// What the connector has brought, and nobody else, and the source has no longer. Served by known_row_by_connector.
const missing = `
  from sync.known_row k
  where k.connector_id = $1::uuid and k.scope = $2::text and ${isNobodyElses} ${isMissing}`
const countMissingRows = statement(
  'sync_count_missing',
  `select count(*)::integer as total, count(*) filter (where k.missing_since is null)::integer as lately ${missing}`,
)
const listMissingRows = statement(
  'sync_list_missing',
  `select k.source_key as key ${missing} and k.source_key > $4::text order by k.source_key limit $5`,
)
const countKnownRows = statement(
  'sync_count_known',
  `select (own.total + also.total)::integer as total, (own.present + also.total)::integer as present
  from (
    select count(*) as total, count(*) filter (where k.missing_since is null) as present
    from sync.known_row k
    where k.connector_id = $1::uuid and k.scope = $2::text
  ) as own
  cross join (
    select count(*) as total from sync.also_brought o where o.connector_id = $1::uuid and o.scope = $2::text
  ) as also`,
)

export interface MissingCounts {
  readonly total: number
  /** Those among them that were there when the connector last ran. */
  readonly lately: number
}

/** How many rows that the connector has brought, and nobody else, the source does not have. */
export async function countMissing(tx: Tx, { connectorId, scope, runId }: Comparison): Promise<MissingCounts> {
  return getRow(await tx.query<{ total: number; lately: number }>(countMissingRows([connectorId, scope, runId])))
}

export async function listMissing(
  tx: Tx,
  { connectorId, scope, runId }: Comparison,
  after: string,
  limit: number,
): Promise<string[]> {
  const rows = await tx.query<{ key: string }>(listMissingRows([connectorId, scope, runId, after, limit]))
  return rows.map(({ key }) => key)
}

const flaggedHash = statement(
  'sync_hash_missing',
  `select encode(sha256(string_agg(sha256(convert_to(k.source_key, 'UTF8')), '' order by k.source_key)), 'hex') as hash
  ${missing} and k.missing_since is null`,
)
const listFlaggedRows = statement(
  'sync_list_flagged',
  `select k.source_key as key ${missing} and k.missing_since is null order by k.source_key limit $4`,
)

/** Rows that are missing from the run on. */
export interface Flagged {
  /** The first of them. */
  readonly keys: readonly string[]
  /** Of all of them. */
  readonly hash: string
}

/** What the source has lost since the connector last ran; undefined where that is nothing. */
export async function findFlagged(
  tx: Tx,
  { connectorId, scope, runId }: Comparison,
  limit: number,
): Promise<Flagged | undefined> {
  const values = [connectorId, scope, runId]
  const [row] = await tx.query<{ hash: string | null }>(flaggedHash(values))
  const hash = row?.hash ?? null
  if (hash === null) return undefined
  const keys = await tx.query<{ key: string }>(listFlaggedRows([...values, limit]))
  return { keys: keys.map(({ key }) => key), hash }
}

/** Rows that the connector has brought, and those among them that were there when it last ran. */
export async function countKnown(
  tx: Tx,
  { connectorId, scope }: Comparison,
): Promise<{ readonly total: number; readonly present: number }> {
  return getRow(await tx.query<{ total: number; present: number }>(countKnownRows([connectorId, scope])))
}

const insertDeactivations = statement(
  'sync_insert_deactivations',
  `insert into sync.run_change (tenant_id, run_id, seq, op, source_key, before, after)
  select
    (select tenancy.tenant_id()), $1::uuid,
    ${lastDepth * seqsADepth} + $5::integer + row_number() over (order by given.key), 'deactivate',
    given.key, given.row, jsonb_set(given.row, array[$3::text], $4::jsonb)
  from jsonb_to_recordset($2::jsonb) as given (key text, row jsonb)
  where given.row -> $3::text is distinct from $4::jsonb`,
)

/**
 * Records that these rows become inactive, those that are not, behind the `recorded` ones before; answers how many, and how many of
 * them are drafts, which stay.
 */
export async function recordDeactivations(
  tx: Tx,
  { runId, statusField, inactive, draft }: Comparison,
  current: readonly CurrentRow[],
  recorded: number,
): Promise<{ readonly gone: number; readonly drafts: number }> {
  if (statusField === null) return { gone: 0, drafts: 0 }
  const able = current.filter(({ row }) => draft === null || Reflect.get(row, statusField) !== draft)
  const gone = await tx.execute(
    insertDeactivations([runId, JSON.stringify(able), statusField, JSON.stringify(inactive), recorded]),
  )
  return { gone, drafts: current.length - able.length }
}

/**
 * PostgreSQL knows nothing yet of changes that were just made, takes them for a few, and would sort all of them, with their
 * content, where an index has them in order. For the rest of the transaction.
 */
export const readInOrder: Statement = { text: 'set local enable_sort = off', values: [] }

// Served by run_change_pk.
const summarize = statement(
  'sync_summarize_changes',
  `select
    count(*) filter (where c.op = 'create')::integer as created,
    count(*) filter (where c.op = 'update')::integer as updated,
    count(*) filter (where c.op = 'move')::integer as moved,
    count(*) filter (where c.op = 'deactivate')::integer as deactivated,
    count(*) filter (where c.op = 'reactivate')::integer as reactivated,
    encode(sha256(coalesce(string_agg(sha256(convert_to(
      jsonb_build_array(c.op, c.source_key, c.before, c.after)::text, 'UTF8')), '' order by c.seq), '')
    ), 'hex') as hash
  from sync.run_change c
  where c.run_id = $1::uuid`,
)

export type ChangeCounts = Pick<RunCounts, 'created' | 'updated' | 'moved' | 'deactivated' | 'reactivated'>

/** How many changes of each kind a run has, and the hash that they are reviewed under. */
export async function summarizeChanges(tx: Tx, runId: string): Promise<ChangeCounts & { readonly hash: string }> {
  const [, rows] = await Promise.all([
    tx.execute(readInOrder),
    tx.query<ChangeCounts & { hash: string }>(summarize([runId])),
  ])
  return getRow(rows)
}

// Pushes last minutes at most, and their ids are in the order of their times. Served by run_connector.
const isOverlapped = (run: string, scope: string): string => `exists (
      select
      from sync.connector pushing
      join sync.run push on push.tenant_id = pushing.tenant_id and push.connector_id = pushing.id
      join sync.run mine on mine.tenant_id = pushing.tenant_id and mine.id = ${run}::uuid
      where pushing.type in ('inline_json', 'scim_inbound')
        and (pushing.dataset = split_part(${scope}::text, '/', 1) or pushing.type = 'scim_inbound')
        and push.id > (
          select uuidv7(r.started_at - clock_timestamp() - interval '10 minutes') from sync.run r where r.id = ${run}::uuid
        )
        and push.source = 'inline' and (push.finished_at is null or push.finished_at >= mine.started_at)
    )`

/**
 * SQL: what the universe was told of a row that the run `$1` of the connector `$3` has made, and of one of the scope `$2` that is known
 * already. That the connector brings what it has made it knows without being told; but somebody else may have made the row since it
 * was compared: a push, or another connector, which says so too.
 */
export const toldOfMade = `case when not ${isOverlapped('$1', '$2')} then $3::uuid end`
export const toldOfKnown = `told_connector_id = case
      when excluded.told_connector_id is null or excluded.told_connector_id = known.told_connector_id then known.told_connector_id
    end`

// What the source holds and the universe has taken in. A row that is known just so is not written.
const learn = statement(
  'sync_learn_rows',
  `insert into sync.known_row as known (tenant_id, scope, source_key, connector_id, hash, run_id, told_connector_id)
  select (select tenancy.tenant_id()), $2::text, s.source_key, $3::uuid, s.hash, $1::uuid,
    case when c.op = 'create' then ${toldOfMade} end
  from sync.staged_row s
  left join sync.known_row k on k.scope = $2::text and k.source_key = s.source_key
  left join sync.run_change c on c.run_id = $1::uuid and c.source_key = s.source_key
  where s.run_id = $1::uuid and s.state = 'valid' and s.row > $4::integer and s.row <= $5::integer
    and (k.hash, k.connector_id, k.missing_since) is distinct from (s.hash, $3::uuid, null::timestamptz)
    and (c.seq is null or ${isApplied('c', appliedUpTo('$1'))})
  on conflict (tenant_id, scope, source_key) do update
  set connector_id = excluded.connector_id, hash = excluded.hash, run_id = excluded.run_id, missing_since = null,
    ${toldOfKnown}`,
)
// A row whose key cannot be read may be any of those that seem to be gone.
const hasNoKeyless = 'and not exists (select from sync.staged_row s where s.run_id = $3::uuid and s.source_key is null)'
const miss = statement(
  'sync_miss_rows',
  `update sync.known_row k
  set ${passOn('$1')},
    missing_since = case when ${isNobodyElses}
      then coalesce(k.missing_since, (select r.started_at from sync.run r where r.id = $3::uuid)) end,
    hash = null
  where k.connector_id = $1::uuid and k.scope = $2::text
    and (k.missing_since is null or k.hash is not null) ${isMissing} ${hasNoKeyless}`,
)
// With what was passed on just now. Served by also_brought_by_connector.
const missAlso = statement(
  'sync_miss_also_brought',
  `delete from sync.also_brought k
  where k.connector_id = $1::uuid and k.scope = $2::text ${isMissing} ${hasNoKeyless}`,
)

// What runs of other connectors of the dataset have changed, or are about to, that had not ended when this one began: of a connector each
// run may bring what another brings too, every night at the same time, so they are held against each other key by key. Served by
// run_connector, run_change_pk and run_creation_pk.
const besides = `
    select beside.id
    from sync.run mine
    join sync.connector other on other.tenant_id = mine.tenant_id and other.id <> mine.connector_id
    join sync.run beside on beside.tenant_id = other.tenant_id and beside.connector_id = other.id
    where mine.id = $2::uuid and other.dataset = split_part($1::text, '/', 1)
      and beside.source = 'connector' and (beside.applied_count > 0 or beside.status = 'applying')
      and (beside.finished_at is null or beside.finished_at >= mine.started_at)`
// Whether there is anybody at all is asked once, first: where nobody is, which is most often, no known row is looked at.
const doubtOverlappedRows = statement(
  'sync_doubt_overlapped',
  `with beside as materialized (${besides}),
  pushed as materialized (select ${isOverlapped('$2', '$1')} as is_so)
  update sync.known_row k
  set hash = null
  where k.scope = $1::text and k.run_id = $2::uuid and k.hash is not null
    and ((select pushed.is_so from pushed) or exists (select from beside))
    and (
      (select pushed.is_so from pushed)
      or k.source_key in (
        select theirs.source_key
        from sync.run_change theirs
        where theirs.run_id = any (array(select beside.id from beside))
        union all
        select unnest(theirs.keys)
        from sync.run_creation theirs
        where theirs.run_id = any (array(select beside.id from beside))
      )
    )`,
)

/**
 * Where somebody has pushed rows of the dataset since the run began, or another connector has changed a row that this one brings too,
 * what the run has learned may not be so any more. To be called once that is committed, and whatever else the run has written known rows for: a push does not wait for rows that are locked, and
 * one that begins later sees them itself.
 */
export async function doubtOverlapped(tx: Tx, { runId, scope }: Comparison): Promise<void> {
  await tx.execute(doubtOverlappedRows([scope, runId]))
}

const lastStaged = statement(
  'sync_last_staged',
  'select s.row from sync.staged_row s where s.run_id = $1::uuid order by s.row desc limit 1',
)

/** The last row of the run that was staged one by one; 0 where there is none. */
export async function lastStagedRow(tx: Tx, runId: string): Promise<number> {
  const [last] = await tx.query<{ row: number }>(lastStaged([runId]))
  return last?.row ?? 0
}

/** Rows of a source behind `after`, up to `last`. */
export interface RowsBehind {
  readonly after: number
  readonly last: number
}

/** Remembers which of these rows the run has brought, so that the next one can tell what is the same and what is gone. */
export async function learnRows(
  tx: Tx,
  { runId, scope, connectorId }: Comparison,
  { after, last }: RowsBehind,
): Promise<object> {
  await tx.execute(learn([runId, scope, connectorId, after, last]))
  return {}
}

// Served by run_change_pk, and known_row_pk for each.
const takeBack = statement(
  'sync_take_rows_back',
  `update sync.known_row k
  set ${passOn('$1')},
    missing_since = case when ${isNobodyElses}
      then coalesce(k.missing_since, (select r.started_at from sync.run r where r.id = $3::uuid)) end,
    hash = null
  from sync.run_change c
  where c.run_id = $3::uuid and c.op = 'deactivate' and ${isApplied('c', appliedUpTo('$3'))}
    and k.connector_id = $1::uuid and k.scope = $2::text and k.source_key = c.source_key`,
)

// What the rollback that is undone had taken back, and none that was missing before it, nor where the source was read since: that run has seen what it has.
// Served likewise, and by run_connector.
const bringAgain = statement(
  'sync_bring_rows_again',
  `update sync.known_row k
  set missing_since = null, hash = null
  from sync.run mine
  join sync.run back on back.tenant_id = mine.tenant_id and back.id = mine.rollback_of and back.mode = 'rollback'
  join sync.run_change c on c.tenant_id = mine.tenant_id and c.run_id = mine.id
  where mine.id = $3::uuid and c.op = 'reactivate' and ${isApplied('c', appliedUpTo('$3'))}
    and k.connector_id = $1::uuid and k.scope = $2::text and k.source_key = c.source_key
    and k.missing_since = back.started_at
    and not exists (
      select
      from sync.run read
      where read.tenant_id = mine.tenant_id and read.connector_id = mine.connector_id and read.id > back.id
        and read.mode = 'apply' and read.status in ('succeeded', 'partial')
    )`,
)

/**
 * Remembers that the connector brings no longer what a rollback has made inactive: limits would hold up the next table, which has none of
 * it. Another connector that brings it as well has it from now on. Where a rollback is undone, it brings again what that had taken back.
 */
export async function takeRowsBack(tx: Tx, { runId, scope, connectorId }: Comparison): Promise<object> {
  await tx.execute(takeBack([connectorId, scope, runId]))
  await tx.execute(bringAgain([connectorId, scope, runId]))
  return {}
}

/** Remembers what the source has no longer; what another connector brings is that one's from now on. */
export async function missRows(tx: Tx, { runId, scope, connectorId }: Comparison): Promise<object> {
  await tx.execute(miss([connectorId, scope, runId]))
  await tx.execute(missAlso([connectorId, scope, runId]))
  return {}
}
