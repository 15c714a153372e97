import { statement } from '../sql/store.ts'
import type { Comparison, Tx } from './store.ts'

// By run_change_pk. Of rows that are as they were nothing is staged that could be looked at: then nothing is said.
const lost = statement(
  'sync_list_lost_fields',
  `select changed.field, changed.rows
  from (
    select one.field, count(*)::integer as rows
    from sync.run_change c
    cross join unnest($2::text[]) as one (field)
    where c.run_id = $1::uuid and c.op in ('update', 'move', 'reactivate')
      and c.before ? one.field and not c.after ? one.field
    group by one.field
  ) as changed
  where not exists (select from sync.staged_block b where b.run_id = $1::uuid)
    and not exists (
      select from sync.staged_row s where s.run_id = $1::uuid and s.state = 'valid' and s.content ? changed.field
    )
  order by changed.field`,
)

export interface LostField {
  readonly field: string
  /** Rows that had it before. */
  readonly rows: number
}

/** Those of the fields that rows lose by this run, and that no row of its source has. */
export async function listLostFields(
  tx: Tx,
  { runId }: Comparison,
  fields: readonly string[],
): Promise<readonly LostField[]> {
  return await tx.query<LostField & { [column: string]: unknown }>(lost([runId, fields]))
}
