import { getRow, statement } from '../sql/store.ts'
import { currentRowsSql } from '../current-rows/store.ts'
import { byDataset } from './by-dataset-store.ts'
import { importRules, parseScope } from './rules.ts'
import type { Import, Tx } from './store.ts'

/** Returns whether unsent rows may have changed: their resources were written since, or a sent row has the same key or address. */
export async function isBaselineStale(tx: Tx, { runId, connectorId, scope }: Import, hashes: number): Promise<boolean> {
  const values = [runId, connectorId, scope]
  const [hashed, repeated, addresses] = await Promise.all([
    tx.query<{ total: number }>(countHashed([connectorId, scope])),
    tx.query<{ found: boolean }>(repeatsKnown(values)),
    scope === 'people' ? tx.query<{ found: boolean }>(repeatsAddress(values)) : [],
  ])
  return getRow(hashed).total < hashes || getRow(repeated).found || addresses[0]?.found === true
}

/** Returns whether an unchanged resource was written since. Call it after missing rows are found. */
export async function hasLostHashes(tx: Tx, { connectorId, scope }: Import, hashes: number): Promise<boolean> {
  return getRow(await tx.query<{ total: number }>(countHashed([connectorId, scope]))).total < hashes
}

const countHashed = statement(
  'universe_count_source_hashes',
  `select count(*)::integer as total
  from universe.source_row s
  where s.connector_id = $1::text and s.scope = $2::text and s.hash is not null`,
)
const isUnchanged = `s.hash is not null and not exists (
      select from universe.import_row g where g.run_id = $1::uuid and g.seq < 0 and g.source_key = s.source_key
    )`
const repeatsKnown = statement(
  'universe_repeats_unchanged_row',
  `select exists (
    select
    from universe.import_row r
    join universe.source_row s on s.connector_id = $2::text and s.scope = $3::text and s.source_key = r.source_key
    where r.run_id = $1::uuid and r.seq > 0 and ${isUnchanged}
  ) as found`,
)
const repeatsAddress = statement(
  'universe_repeats_unchanged_address',
  `select exists (
    select
    from universe.import_row r
    join universe.person p on p.email = lower(r.content ->> 'email') and p.active and p.external_id <> r.source_key
    join universe.source_row s on s.connector_id = $2::text and s.scope = $3::text and s.source_key = p.external_id
    where r.run_id = $1::uuid and r.op = 'create' and r.content -> 'active' is distinct from 'false' and ${isUnchanged}
  ) as found`,
)

const comparedAtOnce = 20_000

/** Compares the next staged rows with the stored ones. Returns the last seq, or undefined if none is left. */
export async function compareRows(tx: Tx, { runId, scope }: Import, after: number): Promise<number | undefined> {
  const [row] = await tx.query<{ last: number | null }>(lastCompared([runId, after, comparedAtOnce]))
  const last = row?.last ?? undefined
  if (last === undefined) return undefined
  const { statusField, inactive, parentField } = importRules[parseScope(scope).dataset]
  await tx.execute(compare(scope, [runId, after, last, statusField, JSON.stringify(inactive), parentField]))
  return last
}

const lastCompared = statement(
  'universe_last_compared_row',
  `select max(next.seq) as last
  from (
    select r.seq
    from universe.import_row r
    where r.run_id = $1::uuid and r.op = 'create' and r.seq > $2::integer
    order by r.seq
    limit $3::integer
  ) as next`,
)

const compare = byDataset(
  'universe_compare',
  (dataset) => `
  with wanted as materialized (
    select r.seq, r.source_key as key, r.content
    from universe.import_row r
    where r.run_id = $1::uuid and r.op = 'create' and r.seq > $2::integer and r.seq <= $3::integer
  ),
  stored as materialized (${currentRowsSql(dataset, 'wanted', '$7::text')})
  update universe.import_row r
  set
    op = case
      when stored.row = wanted.content then 'keep'
      when stored.row -> $4::text = $5::jsonb and wanted.content -> $4::text is distinct from $5::jsonb then 'reactivate'
      when stored.row -> $4::text is distinct from $5::jsonb and wanted.content -> $4::text = $5::jsonb then 'deactivate'
      when stored.row -> $6::text is distinct from wanted.content -> $6::text then 'move'
      else 'update'
    end,
    before = nullif(stored.row, wanted.content)
  from wanted
  join stored on stored.key = wanted.key
  where r.run_id = $1::uuid and r.seq = wanted.seq`,
)
