import { type Tx, arrayLiteral, getRow, statement } from '@postern/tenant-db'
import type { Comparison } from '../../diff/store.ts'
import { hashBytes } from '../../mapping/fingerprint.ts'

/** A row that seems to be as it was when it was last taken in. */
export interface KnownRow {
  readonly row: number
  readonly key: string
  /** What else of it is compared with other rows; see `comparedField`. */
  readonly also: string | undefined
}

/** Such rows on their way into the database, by columns: of many rows little is to be moved in memory, and to be written down. */
export class KnownRows {
  readonly rows: number[] = []
  readonly keys: string[] = []
  readonly also: (string | undefined)[] = []

  get length(): number {
    return this.rows.length
  }

  push({ row, key, also }: KnownRow): void {
    this.rows.push(row)
    this.keys.push(key)
    this.also.push(also)
  }
}

const stageBlockStatement = statement(
  'sync_stage_block',
  `insert into sync.staged_block (tenant_id, run_id, first_row, rows, keys, also)
  values ((select tenancy.tenant_id()), $1::uuid, $2::integer, $3::integer[], $4::text[], $5::text[])`,
)

export async function stageKnown(tx: Tx, runId: string, known: KnownRows): Promise<void> {
  const [first] = known.rows
  if (first === undefined) return
  const { rows, keys, also } = known
  await tx.execute(stageBlockStatement([runId, first, arrayLiteral(rows), arrayLiteral(keys), arrayLiteral(also)]))
}

// Served by known_row_by_connector, from key to key.
const listHashes = statement(
  'sync_list_hashes',
  `select string_agg(one.hash, ''::bytea) as hashes, max(one.source_key) as last
  from (
    select k.source_key, k.hash
    from sync.known_row k
    where k.connector_id = $1::uuid and k.scope = $2::text and k.hash is not null and k.missing_since is null
      and k.source_key > $3::text
    order by k.source_key
    limit $4::integer
  ) as one`,
)

/** Hashes that are read at once. */
const hashesAtOnce = 100_000

/** Returns the hashes of the rows that the connector has brought, some 60 bytes of memory each; undefined if there are none. */
export async function listKnownHashes(
  read: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>,
  { connectorId, scope }: Comparison,
): Promise<Set<string> | undefined> {
  const known = new Set<string>()
  let after = ''
  for (let isLast = false; !isLast;) {
    const values = [connectorId, scope, after, hashesAtOnce]
    const [row] = await read(async (tx) => await tx.query<{ hashes: Buffer | null; last: string }>(listHashes(values)))
    const hashes = row?.hashes ?? Buffer.alloc(0)
    for (let at = 0; at < hashes.length; at += hashBytes) known.add(hashes.toString('latin1', at, at + hashBytes))
    after = row?.last ?? ''
    isLast = hashes.length < hashesAtOnce * hashBytes
  }
  return known.size === 0 ? undefined : known
}

// Served by known_row_by_connector.
const countHeld = statement(
  'sync_count_held',
  `select count(*)::integer as total, count(*) filter (where k.missing_since is null)::integer as present,
    count(k.hash) filter (where k.missing_since is null)::integer as hashed
  from sync.known_row k
  where k.connector_id = $1::uuid and k.scope = $2::text`,
)
// Served by staged_row_pk and known_row_pk.
const listComparedHashes = statement(
  'sync_list_compared_hashes',
  `select string_agg(k.hash, ''::bytea) as hashes
  from sync.staged_row s
  join sync.known_row k on k.scope = $3::text and k.source_key = s.source_key
  where s.run_id = $1::uuid and k.connector_id = $2::uuid and k.hash is not null and k.missing_since is null`,
)

/** What the rows that were staged as known were held against, all of it at one time. */
export interface Held {
  /** Rows that the connector has brought. */
  readonly total: number
  /** Those among them that were there when it last ran. */
  readonly present: number
}

/** How many rows the connector has brought; undefined if fewer of them have a hash than `before`. Only a run of the connector writes hashes. */
export async function holdKnown(tx: Tx, { connectorId, scope }: Comparison, before: number): Promise<Held | undefined> {
  const { hashed, ...held } = getRow(await tx.query<Held & { hashed: number }>(countHeld([connectorId, scope])))
  return hashed < before ? undefined : held
}

/**
 * Whether a key stands both in a row that is known and in one that is compared, which the source has first perhaps. `left`: the hashes that
 * no row has had.
 */
export async function isKnownCompared(
  tx: Tx,
  { runId, connectorId, scope }: Comparison,
  left: ReadonlySet<string>,
): Promise<boolean> {
  const [row] = await tx.query<{ hashes: Buffer | null }>(listComparedHashes([runId, connectorId, scope]))
  const hashes = row?.hashes ?? Buffer.alloc(0)
  for (let at = 0; at < hashes.length; at += hashBytes) {
    if (!left.has(hashes.toString('latin1', at, at + hashBytes))) return true
  }
  return false
}
