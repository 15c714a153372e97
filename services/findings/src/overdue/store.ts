import { type Tx, statement } from '@postern/tenant-db'

const note = statement('findings_note_overdue', 'select findings.note_overdue()')

/** Gives what became overdue a new version and notes it as an event, in all tenants: once for a date, up to 1,000 of each kind. */
export async function recordOverdue(tx: Tx): Promise<void> {
  await tx.execute(note([]))
}
