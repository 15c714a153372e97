import { type Tx, statement } from '@postern/tenant-db'

const note = statement('findings_note_overdue', 'select findings.note_overdue()')

/** Notes what became overdue as events, in all tenants that send events to webhooks: each once for a date. */
export async function noteOverdue(tx: Tx): Promise<void> {
  await tx.execute(note([]))
}
