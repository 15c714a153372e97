import { type Tx, statement } from '@postern/tenant-db'

const note = statement('findings_note_overdue', 'select findings.note_overdue()')

/** Gives newly overdue findings and plans of all tenants a new version and an event, once per due date and up to 1,000 of each. */
export async function recordOverdue(tx: Tx): Promise<void> {
  await tx.execute(note([]))
}
