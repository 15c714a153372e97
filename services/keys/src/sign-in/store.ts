import type { UsageReport } from '@postern/contracts/internal'
import { type Tx, statement } from '@postern/tenant-db'

const record = statement('keys_record_sign_ins', 'select keys.record_sign_ins($1)')
const prune = statement('keys_prune_sign_ins', 'select keys.prune_sign_ins($1)')

/** Adds sign-ins to the audit feed, within limits for each person. Ignores unknown tenants. */
export async function recordSignIns(tx: Tx, signIns: NonNullable<UsageReport['signIns']>): Promise<void> {
  await tx.execute(record([JSON.stringify(signIns)]))
}

/** Deletes up to `limit` sign-ins that no longer count towards a limit. */
export async function pruneSignIns(tx: Tx, limit: number): Promise<void> {
  await tx.execute(prune([limit]))
}
