import type { Tx } from '@postern/tenant-db'
import { getRow, statement } from '../sql/store.ts'
import type { Actor } from '../actor.ts'
import { commitWithoutWaiting } from './store.ts'

const lock = statement(
  'evidence_lock_usage',
  `insert into evidence.tenant_usage as usage (tenant_id, bytes, files)
  values ((select tenancy.tenant_id()), 0, 0)
  on conflict (tenant_id) do update
    set bytes = usage.bytes`,
)

export async function lockUsage(tx: Tx): Promise<void> {
  await Promise.all([commitWithoutWaiting(tx), tx.execute(lock([]))])
}

const takeBack = statement(
  'evidence_take_back',
  `with lapsed as (
    delete from evidence.usage_reservation as reservation
    where reservation.tenant_id = (select tenancy.tenant_id())
      and reservation.id in (
        select old.id
        from evidence.usage_reservation as old
        where old.tenant_id = (select tenancy.tenant_id())
          and (old.expires_at <= now() or old.id = $1::uuid)
        for update skip locked
      )
    returning reservation.bytes, reservation.files
  ),
  total as (
    select coalesce(sum(bytes), 0) as bytes, coalesce(sum(files), 0) as files
    from lapsed
  )
  update evidence.tenant_usage as usage
  set bytes = greatest(0, usage.bytes - total.bytes),
      files = greatest(0, usage.files - total.files)
  from total
  where usage.tenant_id = (select tenancy.tenant_id())
    and total.files + total.bytes > 0`,
)

/** Call it under the lock. */
export async function subtractReservations(tx: Tx, reservationId: string | undefined): Promise<void> {
  await tx.execute(takeBack([reservationId ?? null]))
}

const reserve = statement(
  'evidence_reserve',
  `with made as (
    insert into evidence.usage_reservation (tenant_id, bytes, files, upload_id, expires_at)
    values ((select tenancy.tenant_id()), $1, $2, $3, now() + interval '10 minutes')
    returning id
  )
  update evidence.tenant_usage as usage
  set bytes = usage.bytes + $1,
      files = usage.files + $2
  where usage.tenant_id = (select tenancy.tenant_id())
  returning (select made.id from made) as id`,
)

/** Call it under the lock. */
export async function insertReservation(
  tx: Tx,
  { bytes, files, uploadId }: { readonly bytes: number; readonly files: number; readonly uploadId: string | undefined },
): Promise<string> {
  const row = getRow(await tx.query<{ id: string }>(reserve([bytes, files, uploadId ?? null])))
  return row.id
}

const remove = statement(
  'evidence_delete_reservation',
  `delete from evidence.usage_reservation
  where tenant_id = (select tenancy.tenant_id())
    and id = $1`,
)

/** Returns false if the reservation has expired. */
export async function deleteReservation(tx: Tx, reservationId: string): Promise<boolean> {
  return (await tx.execute(remove([reservationId]))) === 1
}

const expire = statement(
  'evidence_expire_reservation',
  `update evidence.usage_reservation
  set expires_at = '-infinity'
  where tenant_id = (select tenancy.tenant_id())
    and id = $1`,
)

export async function expireReservation(tx: Tx, reservationId: string): Promise<void> {
  await tx.execute(expire([reservationId]))
}

const free = statement(
  'evidence_free_file',
  `insert into evidence.usage_reservation (tenant_id, bytes, files, expires_at)
  values ((select tenancy.tenant_id()), $1, 1, '-infinity')`,
)

/** Returns the quota of a purged file, without a lock: the next upload subtracts this expired reservation. */
export async function creditFile(tx: Tx, bytes: number): Promise<void> {
  await tx.execute(free([bytes]))
}

// In one statement, so that a transferred reservation counts exactly once.
const sumUsed = statement(
  'evidence_used_quota',
  `select
    coalesce((
      select usage.bytes
      from evidence.tenant_usage as usage
      where usage.tenant_id = (select tenancy.tenant_id())
    ), 0) - coalesce((
      select sum(reservation.bytes)
      from evidence.usage_reservation as reservation
      where reservation.tenant_id = (select tenancy.tenant_id())
        and reservation.expires_at <= now()
    ), 0) as used,
    coalesce((
      select sum(upload.length)
      from evidence.upload
      where upload.tenant_id = (select tenancy.tenant_id())
        and upload.receipt_jws is null
        and upload.expires_at > now()
        and (
          upload.arrived > 0
          or upload.created_at > now() - interval '1 hour'
          or exists (
            select from evidence.upload_piece as piece
            where piece.tenant_id = upload.tenant_id
              and piece.upload_id = upload.id
              and piece.length is null
          )
        )
        and upload.id is distinct from $1::uuid
        and not exists (
          select from evidence.usage_reservation as reservation
          where reservation.tenant_id = upload.tenant_id
            and reservation.upload_id = upload.id
            and reservation.expires_at > now()
        )
    ), 0) as promised`,
)

/** Open resumable uploads count, except the named one and those without data for an hour. */
export async function findUsedQuota(tx: Tx, exceptUploadId: string | undefined): Promise<bigint> {
  const row = getRow(await tx.query<{ used: string; promised: string }>(sumUsed([exceptUploadId ?? null])))
  return BigInt(row.used) + BigInt(row.promised)
}

// A few minutes early, because clocks of transactions differ.
const selectLapsing = statement(
  'evidence_lapsing',
  `select length
  from evidence.upload
  where tenant_id = (select tenancy.tenant_id())
    and id = $1
    and created_by_type = $2
    and created_by_id = $3
    and receipt_jws is null
    and expires_at > now()
    and arrived = 0
    and created_at < now() - interval '55 minutes'
    and not exists (
      select from evidence.upload_piece as piece
      where piece.tenant_id = upload.tenant_id
        and piece.upload_id = upload.id
        and piece.length is null
    )`,
)

/** Returns the length of an upload whose claim on the quota lapses soon. */
export async function findLapsing(tx: Tx, id: string, actor: Actor): Promise<number | undefined> {
  const [row] = await tx.query<{ length: string }>(selectLapsing([id, actor.type, actor.id]))
  return row === undefined ? undefined : Number(row.length)
}
