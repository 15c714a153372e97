import type { ApplyImportAnswer } from '@postern/contracts/internal'
import { getRow, statement } from '../sql/store.ts'
import { lockPeople } from '../push-people/store.ts'
import { isBroughtByOthers } from './missing-store.ts'
import { changeOps, firstMissingSeq } from './rules.ts'
import type { Import, Tx } from './store.ts'

export interface PlannedRow {
  readonly seq: number
  readonly isChange: boolean
  readonly content: string | null
}

export async function listNextRows(
  tx: Tx,
  { runId, appliedSequence }: Pick<Import, 'runId' | 'appliedSequence'>,
  { rows, bytes }: { readonly rows: number; readonly bytes: number },
): Promise<PlannedRow[]> {
  return await tx.query<PlannedRow>(nextRows([runId, appliedSequence, rows, bytes]))
}

const isChange = (row: string): string => `${row}.op in ${changeOps}`
const isOpen = (row: string): string => `${row}.op <> 'invalid' and ${row}.op <> 'gone' and ${row}.errors is null`

const nextRows = statement(
  'universe_next_import_rows',
  `select next.seq, next.content is not null as "isChange", next.content
  from (
    select r.seq, r.content, row_number() over same as place, sum(octet_length(r.content)) over same as bytes
    from (
      select r.seq, case when ${isChange('r')} then r.content::text end as content
      from universe.import_row r
      where r.run_id = $1::uuid and r.seq > $2::integer and ${isOpen('r')}
      order by r.seq
      limit $3::integer
    ) as r
    window same as (order by r.seq)
  ) as next
  where next.bytes is null or next.bytes <= $4::integer or next.place = 1
  order by next.seq`,
)

export interface Rejection {
  readonly seq: number
  readonly field: string | null
  readonly code: string
  readonly message: string
}

export async function rejectRows(tx: Tx, runId: string, rejections: readonly Rejection[]): Promise<void> {
  await tx.execute(
    reject([
      runId,
      rejections.map(({ seq }) => seq),
      rejections.map(({ field }) => field),
      rejections.map(({ code }) => code),
      rejections.map(({ message }) => message),
    ]),
  )
}

const reject = statement(
  'universe_reject_import_rows',
  `update universe.import_row r
  set errors = given.errors
  from (
    select one.seq, jsonb_agg(jsonb_build_object(
      'field', one.field, 'code', one.code, 'message', one.message,
      'excerpt', left(named.content #>> string_to_array(one.field, '.'), 80)
    ) order by one.at) as errors
    from unnest($2::integer[], $3::text[], $4::text[], $5::text[]) with ordinality as one (seq, field, code, message, at)
    join universe.import_row named on named.run_id = $1::uuid and named.seq = one.seq
    group by one.seq
  ) as given
  where r.run_id = $1::uuid and r.seq = given.seq`,
)

export async function listRejectedKeys(tx: Tx, runId: string, keys: readonly string[]): Promise<ReadonlySet<string>> {
  if (keys.length === 0) return new Set()
  const rows = await tx.query<{ key: string }>(rejectedKeys([runId, keys]))
  return new Set(rows.map(({ key }) => key))
}

const rejectedKeys = statement(
  'universe_list_rejected_keys',
  `select r.source_key as key
  from universe.import_row r
  where r.run_id = $1::uuid and r.errors is not null and r.source_key = any ($2::text[])`,
)

export async function openSource(tx: Tx, connectorId: string): Promise<void> {
  await tx.execute(open([connectorId]))
}

const open = statement(
  'universe_open_source',
  `insert into universe.source_connector as s (tenant_id, connector_id, telling)
  values ((select tenancy.tenant_id()), $1::text, 1)
  on conflict (tenant_id, connector_id) do update
  set retired_at = null
  where s.retired_at is not null`,
)

/** Sets whether the connector decides about access. Locks people, because each change of a person is published accordingly. */
export async function setAuthority(tx: Tx, connectorId: string, isAuthoritative: boolean): Promise<void> {
  await lockPeople(tx)
  await tx.execute(mark([connectorId, isAuthoritative]))
}

const mark = statement(
  'universe_mark_authority',
  `insert into universe.source_connector as s (tenant_id, connector_id, telling, is_authoritative)
  values ((select tenancy.tenant_id()), $1::text, 1, $2::boolean)
  on conflict (tenant_id, connector_id) do update
  set is_authoritative = excluded.is_authoritative
  where s.is_authoritative <> excluded.is_authoritative`,
)

export interface RowRange {
  readonly after: number
  readonly last: number
}

/**
 * Records which of these applied rows the connector delivers or lacks. `isNew`: all were created now, so their entities name the
 * connector already.
 */
export async function recordSourceRows(
  tx: Tx,
  { runId, connectorId, scope, readAt, rollbackOf }: Import,
  { after, last }: RowRange,
  isNew: boolean,
): Promise<void> {
  const at = readAt.toISOString()
  const range = [runId, connectorId, scope, after, last]
  if (rollbackOf === null) {
    if (after < firstMissingSeq) await tx.execute(bring(range))
    if (last >= firstMissingSeq) {
      await tx.execute(leave(range))
      await tx.execute(forgetLeft(range))
      await tx.execute(miss([...range, at]))
    }
  } else {
    await tx.execute(leaveUndone(range))
    await tx.execute(forgetUndone(range))
    await tx.execute(missUndone([...range, at]))
    await tx.execute(bringAgain([...range, rollbackOf]))
  }
  if (scope === 'auditable_entities' && !isNew) await tx.execute(noteOrigin([runId, connectorId, after, last]))
}

const isOfSource = `and r.errors is null and r.op <> 'invalid' and r.seq < ${firstMissingSeq}`
const isMissing = `and r.errors is null and r.seq >= ${firstMissingSeq}`
const isBrought = isBroughtByOthers('r.source_key', '$3::text', '$2::text', 'offset 0')
// Since the run was planned, another connector may have delivered it.
const isLeft = `${isMissing} and ${isBrought}`
const isUndone = `and r.errors is null and r.op = 'deactivate'`
const ofRange = `r.run_id = $1::uuid and r.seq > $4::integer and r.seq <= $5::integer`

// PostgreSQL looks up an array of keys by the index, even without statistics.
const keysOf = (rows: string): string =>
  `array(select r.source_key from universe.import_row r where ${ofRange} ${rows})`
const isOwn = (rows: string): string =>
  `s.connector_id = $2::text and s.scope = $3::text and s.source_key = any (${keysOf(rows)})`

const bring = statement(
  'universe_bring_source_rows',
  `insert into universe.source_row as s (tenant_id, scope, source_key, connector_id, hash)
  select (select tenancy.tenant_id()), $3::text, r.source_key, $2::text, r.hash
  from universe.import_row r
  where ${ofRange} ${isOfSource}
  on conflict (tenant_id, scope, source_key, connector_id) do update
  set hash = excluded.hash, missing_since = null
  where (s.hash, s.missing_since) is distinct from (excluded.hash, null::timestamptz)`,
)

// The next run of the other connector compares the row and becomes its source.
const leavingSql = (rows: string): string => `
  update universe.source_row other
  set hash = null
  where other.scope = $3::text and other.source_key = any (${keysOf(rows)}) and other.connector_id <> $2::text
    and other.hash is not null`
const leave = statement('universe_leave_source_rows', leavingSql(isLeft))
const leaveUndone = statement('universe_leave_undone_source_rows', leavingSql(isUndone))

const forgettingSql = (rows: string): string => `delete from universe.source_row s where ${isOwn(rows)}`
const forgetLeft = statement('universe_forget_left_source_rows', forgettingSql(isLeft))
const forgetUndone = statement('universe_forget_undone_source_rows', forgettingSql(`${isUndone} and ${isBrought}`))

const missingSql = (rows: string): string => `
  update universe.source_row s
  set missing_since = coalesce(s.missing_since, $6::timestamptz), hash = null
  where ${isOwn(rows)}`
const miss = statement('universe_miss_source_rows', missingSql(isMissing))
const missUndone = statement('universe_miss_undone_source_rows', missingSql(isUndone))

// Restores what the undone rollback had removed, unless the source was read since.
const bringAgain = statement(
  'universe_bring_source_rows_again',
  `update universe.source_row s
  set missing_since = null
  from universe.import back
  where ${isOwn(`and r.errors is null and r.op = 'reactivate'`)}
    and back.run_id = $6::uuid and back.rollback_of is not null and s.missing_since = back.read_at
    and not exists (
      select
      from universe.import later
      where later.connector_id = $2::text and later.run_id > back.run_id and later.rollback_of is null
        and later.is_finished
    )`,
)

// The connector becomes the source of an entity that no other connector delivers, unless it created the entity. Served by
// entity_external_id_unique and source_row_pk, once for each row.
const noteOrigin = statement(
  'universe_note_origin',
  `with noted as materialized (
    select
      e.id, mine.missing_since,
      case when not made.by_it then $2::text end as connector_id,
      case
        when made.by_it then null
        when e.source_connector_id = $2::text then e.source_first_seen_at
        else least(now(), mine.missing_since)
      end as first_seen_at,
      case when mine.missing_since is not null then
        coalesce(
          case when holder.id = $2::text then coalesce(
            e.source_last_seen_at,
            greatest(
              (select s.seen_at from universe.source_connector s where s.connector_id = $2::text),
              case when made.by_it then e.created_at else e.source_first_seen_at end
            )
          ) end,
          least(now(), mine.missing_since)
        )
      end as last_seen_at
    from universe.import_row r
    cross join lateral (
      select mine.missing_since
      from universe.source_row mine
      where mine.scope = 'auditable_entities' and mine.source_key = r.source_key and mine.connector_id = $2::text
      limit 1
    ) as mine
    cross join lateral (
      select
        e.id, e.created_at, e.created_by_type, e.created_by_id, e.source_connector_id, e.source_first_seen_at,
        e.source_last_seen_at
      from universe.entity e
      where e.external_id = r.source_key
      limit 1
    ) as e
    cross join lateral (
      select e.created_by_type = 'connector' and e.created_by_id = $2::text as by_it
    ) as made
    cross join lateral (
      select coalesce(e.source_connector_id, case when e.created_by_type = 'connector' then e.created_by_id end) as id
    ) as holder
    where r.run_id = $1::uuid and r.seq > $3::integer and r.seq <= $4::integer and r.errors is null and r.op <> 'invalid'
      and (
        holder.id = $2::text
        or mine.missing_since is null and not exists (
          select
          from universe.source_connector live
          join universe.source_row theirs on theirs.tenant_id = live.tenant_id and theirs.connector_id = live.connector_id
          where live.connector_id = holder.id and live.retired_at is null
            and theirs.scope = 'auditable_entities' and theirs.source_key = r.source_key and theirs.missing_since is null
        )
      )
  )
  update universe.entity e
  set
    source_connector_id = noted.connector_id, source_first_seen_at = noted.first_seen_at,
    source_last_seen_at = noted.last_seen_at, source_missing_since = noted.missing_since,
    updated_at = now(), version = e.version + 1
  from noted
  where e.id = noted.id
    and (e.source_connector_id, e.source_first_seen_at, e.source_last_seen_at, e.source_missing_since)
      is distinct from (noted.connector_id, noted.first_seen_at, noted.last_seen_at, noted.missing_since)`,
)

/** Ends an import whose rows are all applied. Records the time of a complete read of the source. */
export async function finishImport(
  tx: Tx,
  { runId, connectorId, readAt, isWhole }: Import,
): Promise<Pick<ApplyImportAnswer, 'applied'>> {
  if (isWhole) await tx.execute(completeReading([connectorId, runId, readAt.toISOString()]))
  return getRow(await tx.query<{ applied: number }>(finish([runId])))
}

const finish = statement(
  'universe_finish_import',
  'update universe.import i set is_finished = true where i.run_id = $1::uuid returning i.applied_count as applied',
)
const completeReading = statement(
  'universe_complete_reading',
  `update universe.source_connector s
  set seen_at = greatest(s.seen_at, least($3::timestamptz, now())), seen_run_id = $2::uuid
  where s.connector_id = $1::text and s.seen_run_id is distinct from $2::uuid`,
)
