import type { ImportBatch } from '@postern/contracts/internal'
import { type Tx, statement } from '@postern/tenant-db'

export type { Tx } from '@postern/tenant-db'

// import_pk. The row is locked until the transaction ends, even if the attempt is too old to change it.
const advance = statement(
  'universe_advance_import',
  `insert into universe.import as i (tenant_id, run_id, attempt, applied_sequence)
  values ((select tenancy.tenant_id()), $1::uuid, $2::integer, $3::integer)
  on conflict (tenant_id, run_id) do update
  set attempt = excluded.attempt, applied_sequence = greatest(i.applied_sequence, excluded.applied_sequence)
  where i.attempt <= excluded.attempt
  returning coalesce(old.applied_sequence, 0) as before`,
)

/**
 * Records that the transaction applies this batch. Returns the sequence of the previous batch, or 0. Waits for a batch in
 * progress. Returns undefined if a later attempt has the run.
 */
export async function advanceImport(
  tx: Tx,
  runId: string,
  { attempt, sequence }: ImportBatch,
): Promise<number | undefined> {
  const [row] = await tx.query<{ before: number }>(advance([runId, attempt, sequence]))
  return row?.before
}
