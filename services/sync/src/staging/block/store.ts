import { type Statement, type Tx, arrayLiteral } from '@postern/tenant-db'
import type { Comparison } from '../../diff/store.ts'
import { Remembered, heldBytes } from '../remembered.ts'

function statement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values })
}

/** A row that seems to be as it was when it was last taken in. */
export interface KnownRow {
  readonly row: number
  readonly key: string
  /** What else of it is compared with other rows; see `comparedField`. */
  readonly also: string | undefined
  readonly hash: Buffer
}

const stageBlockStatement = statement(
  'sync_stage_block',
  `insert into sync.staged_block (tenant_id, run_id, first_row, rows, keys, also, hashes)
  values ((select tenancy.tenant_id()), $1::uuid, $2::integer, $3::integer[], $4::text[], $5::text[], $6::bytea[])`,
)

export async function stageKnown(tx: Tx, runId: string, rows: readonly KnownRow[]): Promise<void> {
  const [first] = rows
  if (first === undefined) return
  await tx.execute(
    stageBlockStatement([
      runId,
      first.row,
      arrayLiteral(rows.map(({ row }) => row)),
      arrayLiteral(rows.map(({ key }) => key)),
      arrayLiteral(rows.map(({ also }) => also)),
      arrayLiteral(rows.map(({ hash }) => hash)),
    ]),
  )
}

// Served by known_row_by_connector.
const countHashes = statement(
  'sync_count_hashes',
  `select count(*)::integer as total
  from sync.known_row k
  where k.connector_id = $1::uuid and k.scope = $2::text and k.hash is not null and k.missing_since is null`,
)
const listHashes = statement(
  'sync_list_hashes',
  `select string_agg(substring(k.hash for ${heldBytes}), ''::bytea) as hashes
  from sync.known_row k
  where k.connector_id = $1::uuid and k.scope = $2::text and k.hash is not null and k.missing_since is null
    and get_byte(k.hash, 0) % $3::integer = $4::integer`,
)

/** Hashes that are asked for at once. */
const hashesAtOnce = 200_000

/** What the connector has brought, to be held against what its source says now; undefined where that is nothing. */
export async function rememberRows(
  read: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>,
  { connectorId, scope }: Comparison,
): Promise<Remembered | undefined> {
  const [found] = await read(async (tx) => await tx.query<{ total: number }>(countHashes([connectorId, scope])))
  const total = found?.total ?? 0
  if (total === 0) return undefined
  const remembered = new Remembered(total)
  const parts = Math.ceil(total / hashesAtOnce)
  for (let part = 0; part < parts; part += 1) {
    const [row] = await read(
      async (tx) => await tx.query<{ hashes: Buffer | null }>(listHashes([connectorId, scope, parts, part])),
    )
    if (row !== undefined && row.hashes !== null) remembered.add(row.hashes)
  }
  return remembered
}

// By the whole hash this time. Of two rows with one key the first counts, hence a known one must be the first.
const countDoubtful = statement(
  'sync_count_doubtful',
  `with given as materialized (
    select one.row, one.key, one.hash
    from sync.staged_block b
    cross join lateral unnest(b.rows, b.keys, b.hashes) as one (row, key, hash)
    where b.run_id = $1::uuid
  )
  select
    (
      select count(*)::integer
      from given
      left join sync.known_row k
        on k.connector_id = $2::uuid and k.scope = $3::text and k.source_key = given.key and k.hash = given.hash
        and k.missing_since is null
      where k.source_key is null
    ) + (
      select count(*)::integer
      from (
        select
        from (
          select given.key, given.row, true as known from given
          union all
          select s.source_key, s.row, false from sync.staged_row s where s.run_id = $1::uuid and s.state = 'valid'
        ) as every
        group by every.key
        having count(*) > 1 and max(every.row) filter (where every.known) > min(every.row)
      ) as repeated
    ) as total`,
)

/** How many of the rows that were staged as known are not: because of chance, or because they were written meanwhile. */
export async function countDoubtfulRows(tx: Tx, { runId, connectorId, scope }: Comparison): Promise<number> {
  const [row] = await tx.query<{ total: number }>(countDoubtful([runId, connectorId, scope]))
  return row?.total ?? 0
}
