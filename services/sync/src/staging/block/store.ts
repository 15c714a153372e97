import { type Tx, arrayLiteral, getRow, statement } from '@postern/tenant-db'
import type { Comparison } from '../../diff/store.ts'
import { hashBytes } from '../../mapping/fingerprint.ts'
import { Remembered, heldBytes } from '../remembered.ts'

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
  `select string_agg(substring(one.hash for ${heldBytes}), ''::bytea) as hashes, max(one.source_key) as last
  from (
    select k.source_key, k.hash
    from sync.known_row k
    where k.connector_id = $1::uuid and k.scope = $2::text and k.hash is not null and k.missing_since is null
      and k.source_key > $3::text
    order by k.source_key
    limit $4::integer
  ) as one`,
)

/** Hashes that are asked for at once. */
const hashesAtOnce = 200_000

/** What the connector has brought, to be held against what its source says now; undefined where that is nothing. */
export async function rememberRows(
  read: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>,
  { connectorId, scope }: Comparison,
): Promise<Remembered | undefined> {
  const parts: Buffer[] = []
  let after = ''
  for (let isLast = false; !isLast;) {
    const values = [connectorId, scope, after, hashesAtOnce]
    const [row] = await read(async (tx) => await tx.query<{ hashes: Buffer | null; last: string }>(listHashes(values)))
    const hashes = row?.hashes ?? Buffer.alloc(0)
    parts.push(hashes)
    after = row?.last ?? ''
    isLast = hashes.length < hashesAtOnce * heldBytes
  }
  const total = parts.reduce((sum, { length }) => sum + length / heldBytes, 0)
  if (total === 0) return undefined
  const remembered = new Remembered(total)
  for (const part of parts) remembered.add(part)
  return remembered
}

// What is remembered of the connector, as `Remembered` has what was asked of it; the rows whose keys are compared are taken out again.
const sumKnown = statement(
  'sync_sum_known',
  `select every.total, every.present, every.hashed - compared.hashed as hashed,
    encode(int8send(every.rest # compared.rest), 'hex') as rest
  from (
    select count(*)::integer as total, count(*) filter (where k.missing_since is null)::integer as present,
      count(k.hash) filter (where k.missing_since is null)::integer as hashed,
      coalesce(
        bit_xor(substring(k.hash from ${heldBytes + 1})::bigint) filter (where k.missing_since is null), 0
      ) as rest
    from sync.known_row k
    where k.connector_id = $1::uuid and k.scope = $2::text
  ) as every
  cross join (
    select count(*)::integer as hashed,
      coalesce(bit_xor(substring(k.hash from ${heldBytes + 1})::bigint), 0) as rest
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
 * Where the source has all that was `remembered` but for the rows that are compared, one sum over what is known now says the same as to look
 * each row up: as many there are, and what the hashes have beyond the bytes that were held. Nor is then any of them compared as well: its
 * key would be taken out of the sum. Undefined where it does not. To be called once all that is compared is written.
 */
export async function holdKnown(
  tx: Tx,
  { runId, connectorId, scope }: Comparison,
  remembered: Remembered,
): Promise<Held | undefined> {
  type Sum = { readonly total: number; readonly present: number; readonly hashed: number; readonly rest: string }
  const [sum] = await tx.query<Sum>(sumKnown([connectorId, scope, runId]))
  const holds = sum?.hashed === remembered.taken && sum.rest === remembered.rest
  return holds ? { total: sum.total, present: sum.present, doubtful: 0 } : undefined
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
