// How it is told that the universe has taken a change in: by the batches that are noted. One that the universe has refused has an error.

/** SQL: the last `seq` of the run, a parameter, up to which what is not refused is applied. */
export const appliedUpTo = (run: string): string =>
  `coalesce((select max(b.last_seq) from sync.applied_batch b where b.run_id = ${run}::uuid), 0)`

/** SQL: whether the change was applied; `upTo`: what `appliedUpTo` says of its run. */
export const isApplied = (change: string, upTo: string): string =>
  `(${change}.error is null and ${change}.seq <= ${upTo})`

/** SQL: when the change was applied; null where it was not. Served by applied_batch_pk. */
export const appliedAt = (change: string): string => `
  case when ${change}.error is null then (
    select b.applied_at
    from sync.applied_batch b
    where b.tenant_id = ${change}.tenant_id and b.run_id = ${change}.run_id and b.last_seq >= ${change}.seq
    order by b.last_seq
    limit 1
  ) end`
