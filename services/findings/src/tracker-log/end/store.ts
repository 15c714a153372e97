import { emptyRoot } from '@postern/log-chain'
import { type Tx, statement } from '@postern/tenant-db'

export interface LogEnd {
  readonly position: number
  readonly root: string
  readonly recordedAt: Date | undefined
}

export async function findLogEnd(tx: Tx): Promise<LogEnd> {
  const [row] = await tx.query<{ position: string; root: string; recorded_at: Date }>(readEnd([]))
  if (row === undefined) return { position: 0, root: emptyRoot, recordedAt: undefined }
  return { position: Number(row.position), root: row.root, recordedAt: row.recorded_at }
}

export interface StoredCheckpoint {
  readonly day: string
  readonly position: number
  readonly root: string
  readonly jws: string
}

/** Does nothing if the day has a checkpoint. */
export async function insertCheckpoint(tx: Tx, { day, position, root, jws }: StoredCheckpoint): Promise<void> {
  await tx.execute(saveCheckpoint([day, position, root, jws]))
}

export interface SignedEnd extends StoredCheckpoint {
  /** Null if the log is shorter. */
  readonly found: string | null
}

export async function findSignedEnd(tx: Tx): Promise<SignedEnd | undefined> {
  const [row] = await tx.query<{ position: string; root: string; day: string; jws: string; found: string | null }>(
    readSignedEnd([]),
  )
  return row === undefined ? undefined : { ...row, position: Number(row.position) }
}

/** Replaces the signed end. The end of the log must be locked. */
export async function saveSignedEnd(tx: Tx, { day, position, root, jws }: StoredCheckpoint): Promise<void> {
  await tx.execute(upsertSignedEnd([day, position, root, jws]))
}

export interface FoundCheckpoint {
  readonly checkpoint: StoredCheckpoint | undefined
  /** A later finished day has entries but no checkpoint. */
  readonly isBehind: boolean
  /** The database's day (UTC). */
  readonly today: string
}

export async function findCheckpoint(tx: Tx, day: string): Promise<FoundCheckpoint> {
  const [row] = await tx.query<CheckpointRow>(lastCheckpoint([day]))
  if (row === undefined) throw new Error('the checkpoint of a day returned no row')
  const { day: of, position, root, jws, is_behind: isBehind, today } = row
  const isFound = of !== null && position !== null && root !== null && jws !== null
  return { checkpoint: isFound ? { day: of, position: Number(position), root, jws } : undefined, isBehind, today }
}

interface CheckpointRow {
  readonly day: string | null
  readonly position: string | null
  readonly root: string | null
  readonly jws: string | null
  readonly is_behind: boolean
  readonly today: string
}

/** Locks the end of the log, as `findings.place_log_entries` does. */
export async function lockLog(tx: Tx): Promise<void> {
  await tx.query(lockEnd([]))
}

/** Returns the last entry of the last finished day up to `day` without a checkpoint. */
export async function findDayEnd(
  tx: Tx,
  day: string,
): Promise<(Omit<StoredCheckpoint, 'jws'> & { readonly now: Date }) | undefined> {
  const [row] = await tx.query<{ day: string; position: string; root: string; now: Date }>(dayEnd([day]))
  return row === undefined ? undefined : { ...row, position: Number(row.position) }
}

const lockEnd = statement(
  'log_hold_end',
  `select from pg_advisory_xact_lock(hashtextextended('findings.tracker_log ' || (select tenancy.tenant_id())::text, 0))`,
)

// tracker_log_pk, backward
const readEnd = statement(
  'log_read_end',
  `select l.position, l.root, l.recorded_at
  from findings.tracker_log l
  where l.position > 0
  order by l.position desc
  limit 1`,
)

// log_end_pk, tracker_log_pk
const readSignedEnd = statement(
  'log_read_signed_end',
  `select signed.position, signed.root, signed.day, signed.jws, l.root as found
  from findings.log_end signed
  left join findings.tracker_log l on l.tenant_id = signed.tenant_id and l.position = signed.position`,
)

const upsertSignedEnd = statement(
  'log_keep_signed_end',
  `insert into findings.log_end as signed (tenant_id, day, position, root, jws)
  values ((select tenancy.tenant_id()), $1::date, $2::bigint, $3, $4)
  on conflict (tenant_id) do update
    set day = greatest(signed.day, excluded.day), position = excluded.position, root = excluded.root, jws = excluded.jws`,
)

const saveCheckpoint = statement(
  'log_save_checkpoint',
  `insert into findings.log_checkpoint (tenant_id, day, position, root, jws)
  values ((select tenancy.tenant_id()), $1::date, $2::bigint, $3, $4)
  on conflict (tenant_id, day) do nothing`,
)

const dayOver = `least($1::date, (now() at time zone 'UTC')::date - 1)`

const afterDays = `(${dayOver} + 1)::timestamp at time zone 'UTC'`

// log_checkpoint_pk, backward
const checkpointOf = `
  (values (1)) as one (row)
  left join lateral (
    select c.day, c.position, c.root, c.jws
    from findings.log_checkpoint c
    where c.day <= $1::date
    order by c.day desc
    limit 1
  ) as c on true`

const nextPosition = `coalesce(
  (select min(later.position) from findings.log_checkpoint later where later.day > $1::date), 9223372036854775807)`

// tracker_log_pk, for the entry after the checkpoint
const lastCheckpoint = statement(
  'log_last_checkpoint',
  `select c.day, c.position, c.root, c.jws, coalesce(
    next.recorded_at < ${afterDays} and (c.day is null or c.day < ${dayOver}) and next.position <= ${nextPosition},
    false) as is_behind, (now() at time zone 'UTC')::date as today
  from ${checkpointOf}
  left join findings.tracker_log next on next.position = coalesce(c.position, 0) + 1`,
)

// An entry from before midnight that commits later belongs to the next day, so that days follow positions.
const dayEnd = statement(
  'log_day_end',
  `select greatest(covered.day, c.day + 1) as day, l.position, l.root, now()::timestamptz(3) as now
  from ${checkpointOf}
  cross join lateral (
    select max((e.recorded_at at time zone 'UTC')::date) as day, max(e.position) as position
    from findings.tracker_log e
    where e.position > coalesce(c.position, 0) and e.position <= ${nextPosition}
      and e.position < coalesce((
        select later.position
        from findings.tracker_log later
        where later.position > coalesce(c.position, 0) and later.recorded_at >= ${afterDays}
        order by later.position
        limit 1
      ), 9223372036854775807)
  ) as covered
  join findings.tracker_log l on l.position = covered.position
  where c.day is null or c.day < ${dayOver}`,
)
