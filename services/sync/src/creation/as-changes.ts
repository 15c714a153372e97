import { seqsADepth } from '../diff/seq.ts'

/** SQL: the `seq` of a creation. All are applied as if they stood at the top: their order is that of the source. */
export const seqOf = (row: string): string => `${seqsADepth} + ${row}`

/** SQL: that the run, a parameter, is planned: what it makes is a change from then on. */
export const isPlanned = (run: string): string =>
  `exists (select from sync.run r where r.id = ${run}::uuid and r.diff_hash is not null)`

const asChanges = (one: string): string => `
    select one.tenant_id, one.run_id, ${seqOf('one.row')} as seq, 'create' as op, one.key as source_key,
      null::jsonb as before, one.content::jsonb as after, null::text as error
    from (${one}) as one`

const rowsOf = (blocks: string, run: string, after: string): string => `
      select b.tenant_id, b.run_id, one.row, one.key, one.content
      from ${blocks} as b
      cross join lateral unnest(b.rows, b.keys, string_to_array(b.contents, E'\\n')) as one (row, key, content)
      where b.run_id = ${run}::uuid and ${seqOf('one.row')} > ${after} and ${isPlanned(run)}`

/** SQL: the creations of the run as rows of run_change, those from one `seq` on and below another. All are parameters. */
export const creationsBetween = (run: string, from: string, below: string): string => `
    select made.*
    from (${asChanges(
      rowsOf(
        `(select * from sync.run_creation b
          where b.run_id = ${run}::uuid and ${seqOf('b.last_row')} >= ${from} and ${seqOf('b.first_row')} < ${below})`,
        run,
        `${from} - 1`,
      ),
    )}) as made
    where made.seq < ${below}`

// Of the first block all rows but one may be listed already; those behind it are taken until they have enough.
const firstBlocks = (run: string, after: string, limit: string): string => `(
      select found.*
      from (
        select b.*, sum(cardinality(b.rows)) over same - cardinality(b.rows) - first_value(cardinality(b.rows)) over same as listed
        from (
          select * from sync.run_creation b
          where b.run_id = ${run}::uuid and ${seqOf('b.last_row')} > ${after}
          order by b.first_row
          limit ${limit}
        ) as b
        window same as (order by b.first_row)
      ) as found
      where found.listed < ${limit}
    )`

/** SQL: the first of them behind a `seq`. All are parameters. Only of those that are taken JSON is read. */
export const firstCreationsAsChanges = (run: string, after: string, limit: string): string =>
  asChanges(`${rowsOf(firstBlocks(run, after, limit), run, after)}
      order by one.row
      limit ${limit}`)
