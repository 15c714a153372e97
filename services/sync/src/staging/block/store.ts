import { type Tx, arrayLiteral, getRow, statement } from '@postern/tenant-db'
import type { Comparison } from '../../diff/store.ts'
import { hashBytes } from '../../mapping/fingerprint.ts'

/** A row that seems to be as it was when it was last taken in. */
export interface KnownRow {
  readonly row: number
  readonly key: string
  /** What else of it is compared with other rows; see `comparedField`. */
  readonly also: string | undefined
  /** As of a Fingerprint. */
  readonly hash: string
}

/** Such rows on their way into the database, by columns: of many rows little is to be moved in memory, and to be written down. */
export class KnownRows {
  readonly rows: number[] = []
  readonly keys: string[] = []
  readonly also: (string | undefined)[] = []
  readonly #most: number
  #hashes: Buffer | undefined

  /** `most`: how many it is made for. */
  constructor(most: number) {
    this.#most = most
  }

  get length(): number {
    return this.rows.length
  }

  /** One behind another. */
  get hashes(): Buffer {
    return this.#hashes?.subarray(0, this.length * hashBytes) ?? Buffer.alloc(0)
  }

  push({ row, key, also, hash }: KnownRow): void {
    this.#hashes ??= Buffer.allocUnsafeSlow(this.#most * hashBytes)
    this.#hashes.write(hash, this.length * hashBytes, hashBytes, 'latin1')
    this.rows.push(row)
    this.keys.push(key)
    this.also.push(also)
  }
}

// The numbers come in their order: to sort them costs a third of the statement.
const stageBlockStatement = statement(
  'sync_stage_block',
  `insert into sync.staged_block (tenant_id, run_id, first_row, rows, keys, also, hashes)
  values (
    (select tenancy.tenant_id()), $1::uuid, $2::integer, $3::integer[], $4::text[], $5::text[],
    array(
      select substring($6::bytea from at for ${hashBytes}) from generate_series(1, length($6::bytea), ${hashBytes}) as at
    )
  )`,
)

export async function stageKnown(tx: Tx, runId: string, known: KnownRows): Promise<void> {
  const [first] = known.rows
  if (first === undefined) return
  const { rows, keys, also, hashes } = known
  await tx.execute(
    stageBlockStatement([runId, first, arrayLiteral(rows), arrayLiteral(keys), arrayLiteral(also), hashes]),
  )
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

const countKnownHashes = statement(
  'sync_count_known_hashes',
  `select every.total, every.present, every.hashed, compared.hashed as compared
  from (
    select count(*)::integer as total, count(*) filter (where k.missing_since is null)::integer as present,
      count(k.hash) filter (where k.missing_since is null)::integer as hashed
    from sync.known_row k
    where k.connector_id = $1::uuid and k.scope = $2::text
  ) as every
  cross join (
    select count(*)::integer as hashed
    from (
      select distinct s.source_key from sync.staged_row s where s.run_id = $3::uuid and s.source_key is not null
    ) as given
    join sync.known_row k on k.scope = $2::text and k.source_key = given.source_key
    where k.connector_id = $1::uuid and k.hash is not null and k.missing_since is null
  ) as compared`,
)
// By the whole hash, row by row.
const countUnheld = statement(
  'sync_count_unheld',
  `select count(*) filter (where k.source_key is null)::integer as unheld,
    (
      select count(*)::integer from sync.known_row every where every.connector_id = $2::uuid and every.scope = $3::text
    ) as total,
    (
      select count(*)::integer
      from sync.known_row every
      where every.connector_id = $2::uuid and every.scope = $3::text and every.missing_since is null
    ) as present
  from (
    select one.key, one.hash
    from sync.staged_block b
    cross join lateral unnest(b.keys, b.hashes) as one (key, hash)
    where b.run_id = $1::uuid
  ) as given
  left join sync.known_row k
    on k.connector_id = $2::uuid and k.scope = $3::text and k.source_key = given.key and k.hash = given.hash
    and k.missing_since is null`,
)
// Of two rows with one key the first counts, hence a known one must be the first.
const countOvertaken = statement(
  'sync_count_overtaken',
  `select count(*)::integer as total
  from (
    select
    from (
      select one.key, one.row, true as known
      from sync.staged_block b
      cross join lateral unnest(b.rows, b.keys) as one (row, key)
      where b.run_id = $1::uuid
      union all
      select s.source_key, s.row, false from sync.staged_row s where s.run_id = $1::uuid and s.state = 'valid'
    ) as every
    group by every.key
    having count(*) > 1 and max(every.row) filter (where every.known) > min(every.row)
  ) as repeated`,
)

/** What the rows that were staged as known were held against, all of it at one time. */
export interface Held {
  /**
   * How many of them are not: because of chance, because they were written meanwhile, or because one that is not known has their
   * key.
   */
  readonly doubtful: number
  /** Rows that the connector has brought. */
  readonly total: number
  /** Those among them that were there when it last ran. */
  readonly present: number
}

/**
 * Checks by counting that the rows staged as known still are. Only a run of the connector writes hashes, so while this run lasts they can
 * only go: as many as `before` means that none has. If the others are as many as the rows `staged` as known, no row is both known and
 * compared. Returns undefined if the counts differ; then look each row up (`holdEach`). Call it when all compared rows are written.
 */
export async function holdKnown(
  tx: Tx,
  { runId, connectorId, scope }: Comparison,
  { before, staged }: { readonly before: number; readonly staged: number },
): Promise<Held | undefined> {
  type Counts = { readonly total: number; readonly present: number; readonly hashed: number; readonly compared: number }
  const { total, present, hashed, compared } = getRow(
    await tx.query<Counts>(countKnownHashes([connectorId, scope, runId])),
  )
  const holds = hashed === before && hashed - compared === staged
  return holds ? { total, present, doubtful: 0 } : undefined
}

/** Looks each row that was staged as known up. */
export async function holdEach(tx: Tx, { runId, connectorId, scope }: Comparison, compared: number): Promise<Held> {
  const [rows, [overtaken]] = await Promise.all([
    tx.query<{ unheld: number; total: number; present: number }>(countUnheld([runId, connectorId, scope])),
    compared === 0 ? [] : tx.query<{ total: number }>(countOvertaken([runId])),
  ])
  const { unheld, total, present } = getRow(rows)
  return { doubtful: unheld + (overtaken?.total ?? 0), total, present }
}
