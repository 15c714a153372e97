import { seqsADepth } from '../diff/seq.ts'

/** SQL: the `seq` of a creation. All are applied as if they stood at the top: their order is that of the source. */
export const seqOf = (row: string): string => `${seqsADepth} + ${row}`

// Before the run is planned they are none yet. A worker of a release that knows no blocks may have planned the run anew.
/** SQL: the creations of the run, a parameter, as rows of run_change; behind a `seq`, in their order, as many as are asked for. */
export const creationsAsChanges = (run: string, after = '0'): string => `
    select b.tenant_id, b.run_id, ${seqOf('one.row')} as seq, 'create' as op, one.key as source_key, 1 as depth,
      null::jsonb as before, one.content::jsonb as after, null::timestamptz as applied_at, null::text as error
    from (
      select * from sync.run_creation b where b.run_id = ${run}::uuid and ${seqOf('b.last_row')} > ${after} order by b.first_row
    ) as b
    cross join lateral unnest(b.rows, b.keys, string_to_array(b.contents, E'\\n')) as one (row, key, content)
    where ${seqOf('one.row')} > ${after}
      and exists (select from sync.run r where r.id = ${run}::uuid and r.diff_hash is not null)
      and not exists (
        select from sync.run_change c where c.tenant_id = b.tenant_id and c.run_id = b.run_id and c.source_key = one.key
      )`
