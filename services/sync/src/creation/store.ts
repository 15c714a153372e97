// Rows that make something of which there is nothing yet, many to one: staged, and the changes of their run then. Where they turn out
// to be anything else, they become rows of staged_row and run_change, and are treated as all others.
import { type Tx, arrayLiteral, getRow, statement } from '@postern/tenant-db'
import { appliedUpTo } from '../diff/applied.ts'
import type { OpenChange } from '../diff/open-store.ts'
import { seqsADepth } from '../diff/seq.ts'
import { type ChangeCounts, type Comparison, type RowsBehind, toldOfKnown, toldOfMade } from '../diff/store.ts'
import type { StagedRow } from '../staging/store.ts'
import { seqOf } from './as-changes.ts'

// A worker that has lost the run may find what another has kept: that it has, it is told when the step ends.
const keep = statement(
  'sync_keep_creations',
  `insert into sync.run_creation (tenant_id, run_id, first_row, last_row, rows, keys, parents, hashes, contents)
  values ((select tenancy.tenant_id()), $1::uuid, $2::integer, $3::integer, $4::integer[], $5::text[], $6::text[], $7::bytea[], $8::text)
  on conflict do nothing`,
)

/** Keeps valid rows that follow each other. */
export async function keepCreations(tx: Tx, runId: string, rows: readonly StagedRow[]): Promise<void> {
  const [first, last] = [rows[0], rows.at(-1)]
  if (first === undefined || last === undefined) return
  await tx.execute(
    keep([
      runId,
      first.row,
      last.row,
      arrayLiteral(rows.map(({ row }) => row)),
      arrayLiteral(rows.map(({ key }) => key)),
      arrayLiteral(rows.map(({ parent }) => parent)),
      arrayLiteral(rows.map(({ hash }) => (hash === undefined ? undefined : Buffer.from(hash, 'latin1')))),
      // JSON that was written holds no line feed.
      rows.map(({ content }) => content).join('\n'),
    ]),
  )
}

const given = `
    select one.row, one.key, one.parent
    from sync.run_creation b
    cross join lateral unnest(b.rows, b.keys, b.parents) as one (row, key, parent)
    where b.run_id = $1::uuid`

// Only rows that others hang below are walked: far fewer than there are.
const check = statement(
  'sync_check_creations',
  `with recursive given as materialized (${given}),
  parent as materialized (
    select above.row, above.key, above.parent, named.first
    from (select g.parent as key, min(g.row) as first from given g where g.parent is not null group by g.parent) as named
    join given above on above.key = named.key
  ),
  placed as (
    select top.key, 1 as depth
    from parent top
    where not exists (select from parent above where above.key = top.parent)
    union all
    select below.key, placed.depth + 1
    from placed
    join parent below on below.parent = placed.key
    where placed.depth <= $2::integer
  )
  select
    (select count(*)::integer from given) as total,
    not exists (select from given group by given.key having count(*) > 1)
      and not exists (select from parent where parent.first <= parent.row)
      and coalesce((select max(placed.depth) from placed), 0) < $2::integer as fits`,
)

/** How many there are; `fits`: each has a key of its own, stands behind its parent, and not too deep. */
export async function checkCreations(
  tx: Tx,
  runId: string,
  maxDepth: number,
): Promise<{ readonly total: number; readonly fits: boolean }> {
  return getRow(await tx.query<{ total: number; fits: boolean }>(check([runId, maxDepth])))
}

const outside = statement(
  'sync_outside_parents_of_creations',
  `with given as materialized (${given})
  select wanted.key
  from (select distinct g.parent as key from given g where g.parent > $2::text) as wanted
  where not exists (select from given g where g.key = wanted.key)
  order by 1
  limit $3`,
)

/** Keys of parents that are none of them, in their order, those after `after`. */
export async function listParentsOutside(tx: Tx, runId: string, after: string, limit: number): Promise<string[]> {
  const rows = await tx.query<{ key: string }>(outside([runId, after, limit]))
  return rows.map(({ key }) => key)
}

const keysOf = statement(
  'sync_list_creation_keys',
  `select to_json(b.keys) as keys, b.last_row as last
  from sync.run_creation b
  where b.run_id = $1::uuid and b.first_row > $2::integer
  order by b.first_row
  limit $3`,
)

/** The keys of some blocks behind a row, and their last row; no keys where there are none. */
export async function nextKeys(
  tx: Tx,
  runId: string,
  after: number,
  blocks: number,
): Promise<{ readonly keys: readonly string[]; readonly last: number }> {
  const rows = await tx.query<{ keys: string[]; last: number }>(keysOf([runId, after, blocks]))
  return { keys: rows.flatMap(({ keys }) => keys), last: rows.at(-1)?.last ?? after }
}

const lastBlocks = statement(
  'sync_last_creations',
  `select min(last.first_row) as first
  from (
    select b.first_row from sync.run_creation b where b.run_id = $1::uuid order by b.first_row desc limit $2
  ) as last`,
)
const whole = `sync.run_creation b
  cross join lateral unnest(b.rows, b.keys, b.parents, b.hashes, string_to_array(b.contents, E'\\n'))
    as one (row, key, parent, hash, content)
  where b.run_id = $1::uuid and b.first_row >= $2::integer`
const toStaged = statement(
  'sync_stage_creations',
  `insert into sync.staged_row (tenant_id, run_id, row, source_key, parent_key, content, hash, state, depth)
  select
    (select tenancy.tenant_id()), $1::uuid, one.row, one.key, one.parent, one.content::jsonb, one.hash, 'valid',
    case when one.parent is null then 1 end
  from ${whole}`,
)
const toChanges = statement(
  'sync_write_creations',
  `insert into sync.run_change (tenant_id, run_id, seq, op, source_key, before, after)
  select (select tenancy.tenant_id()), $1::uuid, ${seqOf('one.row')}, 'create', one.key, null, one.content::jsonb
  from ${whole}`,
)
const forget = statement(
  'sync_forget_last_creations',
  'delete from sync.run_creation b where b.run_id = $1::uuid and b.first_row >= $2::integer',
)

/** What becomes of rows that were kept in blocks. */
export interface Unpacked {
  /** Rows that are compared as all others, and remembered once they are applied. */
  readonly rows: boolean
  /** A change of each, that can be told from the others. */
  readonly changes: boolean
}

/**
 * Makes rows of some blocks, the last ones first: what is left of them is applied before what was made of them. False where there was
 * none left.
 */
export async function unpackLast(tx: Tx, runId: string, blocks: number, { rows, changes }: Unpacked): Promise<boolean> {
  const [last] = await tx.query<{ first: number | null }>(lastBlocks([runId, blocks]))
  const first = last?.first ?? null
  if (first === null) return false
  if (changes) await tx.execute(toChanges([runId, first]))
  if (rows) await tx.execute(toStaged([runId, first]))
  await tx.execute(forget([runId, first]))
  return true
}

const summarize = statement(
  'sync_summarize_creations',
  `select
    coalesce(sum(cardinality(b.rows)), 0)::integer as created,
    encode(sha256(string_agg(sha256(convert_to(b.contents, 'UTF8')), '' order by b.first_row)), 'hex') as hash
  from sync.run_creation b
  where b.run_id = $1::uuid`,
)

/** How many there are, and a hash of what they make; null where there are none. */
export async function summarizeCreations(
  tx: Tx,
  runId: string,
): Promise<Pick<ChangeCounts, 'created'> & { readonly hash: string | null }> {
  return getRow(await tx.query<{ created: number; hash: string | null }>(summarize([runId])))
}

// Served by run_creation_pk.
const next = statement(
  'sync_next_creations',
  `select next.rows, next.contents
  from (
    select array_to_string(b.rows, ',') as rows, b.contents, row_number() over same as place,
      sum(cardinality(b.rows)) over same as total, sum(octet_length(b.contents)) over same as bytes
    from (
      select b.first_row, b.rows, b.contents
      from sync.run_creation b
      where b.run_id = $1::uuid and ${seqOf('b.last_row')} > greatest($2::integer, ${appliedUpTo('$1')})
      order by b.first_row
      limit 20
    ) as b
    window same as (order by b.first_row)
  ) as next
  where next.total <= $3::integer and next.bytes <= $4::integer or next.place = 1
  order by next.place`,
)

/** The next of them that are not applied, in the order in which they are, at most so many and of at most so many bytes. */
export async function listOpenCreations(
  tx: Tx,
  runId: string,
  keyField: string,
  after: number,
  { rows, bytes }: { readonly rows: number; readonly bytes: number },
): Promise<OpenChange[]> {
  const found = await tx.query<{ rows: string; contents: string }>(next([runId, after, rows, bytes]))
  return found.flatMap((block) => {
    const places = block.rows.split(',')
    return block.contents.split('\n').map((content, at) => ({
      seq: seqsADepth + Number(places[at]),
      get source_key() {
        return String(JSON.parse(content)[keyField])
      },
      after: content,
    }))
  })
}

// As learnRows.
const learn = statement(
  'sync_learn_creations',
  `insert into sync.known_row as known (tenant_id, scope, source_key, connector_id, hash, run_id, told_connector_id)
  select (select tenancy.tenant_id()), $2::text, one.key, $3::uuid, one.hash, $1::uuid, ${toldOfMade}
  from sync.run_creation b
  cross join lateral unnest(b.keys, b.hashes) as one (key, hash)
  where b.run_id = $1::uuid and b.first_row > $4::integer and b.first_row <= $5::integer
  on conflict (tenant_id, scope, source_key) do update
  set connector_id = excluded.connector_id, hash = excluded.hash, run_id = excluded.run_id, missing_since = null,
    ${toldOfKnown}
  where (known.hash, known.connector_id, known.run_id, known.missing_since)
    is distinct from (excluded.hash, excluded.connector_id, excluded.run_id, null::timestamptz)`,
)

/** Remembers those of some blocks, once all are applied. */
export async function learnCreations(
  tx: Tx,
  { runId, scope, connectorId }: Comparison,
  { after, last }: RowsBehind,
): Promise<object> {
  await tx.execute(learn([runId, scope, connectorId, after, last]))
  return {}
}

const doubt = statement(
  'sync_doubt_creations',
  `update sync.known_row k
  set hash = null
  from (
    select unnest(b.keys) as key
    from sync.run_creation b
    where b.run_id = $2::uuid and ${seqOf('b.last_row')} > ${appliedUpTo('$2')}
  ) as made
  where k.scope = $1::text and k.hash is not null and k.source_key = made.key`,
)

/** As doubtKnownRows. */
export async function doubtCreations(tx: Tx, { scope, runId }: Comparison): Promise<void> {
  await tx.execute(doubt([scope, runId]))
}
