import type { UsageReport } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'

/** Notes when keys were last used and from where. Update only: keys that do not exist, or not in the tenant, are passed over. */
export async function recordUses(tx: Tx, uses: UsageReport['uses']): Promise<void> {
  await tx.execute({ name: 'keys_record_uses', text: 'select keys.record_uses($1)', values: [JSON.stringify(uses)] })
}

/** Notes that keys were refused; at most one event a key, reason and minute reaches the audit trail. */
export async function recordDenials(tx: Tx, denials: UsageReport['denials']): Promise<void> {
  await tx.execute({
    name: 'keys_record_denials',
    text: 'select keys.record_denials($1)',
    values: [JSON.stringify(denials)],
  })
}

/** Writes the events of refusals that were counted and not yet written; gives their number. */
export async function notePendingDenials(tx: Tx, limit: number): Promise<number> {
  const [row] = await tx.query<{ noted: number }>({
    name: 'keys_note_pending_denials',
    text: 'select keys.note_pending_denials($1) as noted',
    values: [limit],
  })
  return row?.noted ?? 0
}
