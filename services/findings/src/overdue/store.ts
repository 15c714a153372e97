import { type Tx, statement } from '@postern/tenant-db'

const note = statement('findings_note_overdue', 'select findings.note_overdue()')

/** Records one event per overdue item and due date, for tenants with webhooks. */
export async function noteOverdue(tx: Tx): Promise<void> {
  await tx.execute(note([]))
}
