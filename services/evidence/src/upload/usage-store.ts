import type { Tx } from '@postern/tenant-db'
import type { Actor } from './store.ts'

// Like the reference counter, its row stays locked to the end of the transaction: two uploads at once cannot both take
// the last room. Served by the primary key.
const addUsageText = `
  insert into evidence.tenant_usage as usage (tenant_id, bytes, files)
  values ((select tenancy.tenant_id()), $1, $2)
  on conflict (tenant_id) do update
    set bytes = usage.bytes + excluded.bytes,
        files = usage.files + excluded.files
  returning bytes`

/** Counts files to what the tenant keeps, and gives the bytes that it keeps then. */
export async function addUsage(tx: Tx, bytes: number, files: number): Promise<bigint> {
  const [row] = await tx.query<{ bytes: string }>({
    name: 'evidence_add_usage',
    text: addUsageText,
    values: [bytes, files],
  })
  if (row === undefined) throw new Error('the usage of the tenant was not counted')
  return BigInt(row.bytes)
}

// Served by the primary key.
const usageText = `
  select bytes
  from evidence.tenant_usage
  where tenant_id = (select tenancy.tenant_id())`

/** How many bytes the tenant keeps. */
export async function findUsage(tx: Tx): Promise<bigint> {
  const [row] = await tx.query<{ bytes: string }>({ name: 'evidence_usage', text: usageText, values: [] })
  return BigInt(row?.bytes ?? 0)
}

// Served by upload_open and upload_piece_one_open.
const promisedText = `
  select coalesce(sum(length), 0)::text as bytes
  from evidence.upload
  where tenant_id = (select tenancy.tenant_id())
    and receipt_jws is null
    and expires_at > now()
    and (
      arrived > 0
      or created_at > now() - interval '1 hour'
      or exists (
        select from evidence.upload_piece as piece
        where piece.tenant_id = upload.tenant_id
          and piece.upload_id = upload.id
          and piece.length is null
      )
    )
    and id is distinct from $1::uuid`

/**
 * How many bytes the tenant's resumable uploads have been promised room for, but for the one named. A promise lapses where
 * nothing was sent for an hour, and nobody is sending now: to begin costs nothing, nor does a piece of no bytes.
 */
export async function findPromised(tx: Tx, except: string | undefined): Promise<bigint> {
  const [row] = await tx.query<{ bytes: string }>({
    name: 'evidence_promised',
    text: promisedText,
    values: [except ?? null],
  })
  return BigInt(row?.bytes ?? 0)
}

// Some minutes early, since clocks of transactions that run at once differ: where the promise still holds there is room.
// Served by the primary key and upload_piece_one_open.
const lapsingText = `
  select length::text
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
    )`

/** The bytes of an upload of the actor of which nothing was sent for so long that it is promised room no more, or soon will not be. */
export async function findLapsing(tx: Tx, id: string, actor: Actor): Promise<bigint | undefined> {
  const [row] = await tx.query<{ length: string }>({
    name: 'evidence_lapsing',
    text: lapsingText,
    values: [id, actor.type, actor.id],
  })
  return row === undefined ? undefined : BigInt(row.length)
}
