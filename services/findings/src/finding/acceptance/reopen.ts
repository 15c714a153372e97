import type { Logger } from '@postern/service-kit'
import type { TenantAssertion, TenantDb, Tx } from '@postern/tenant-db'
import { runWithSavepoint } from '../../bulk/store.ts'
import { type CalendarDate, nextDay } from '../rules.ts'
import { createRecorderFor } from '../../tracker-log/record.ts'
import type { LogDraft } from '../../tracker-log/rules.ts'
import type { CheckpointSigner } from '../../tracker-log/sign.ts'
import { startRemediation } from '../change.ts'
import { findProgress, lockFinding, updateFinding } from '../store.ts'
import { applyMove } from '../transitions.ts'
import { listExpired } from './store.ts'

const batch = 100

/** Reopens findings whose acceptance ended before `today`. Logs those that it cannot reopen. */
export async function reopenExpired(
  db: TenantDb,
  tenant: TenantAssertion,
  {
    tenantId,
    today,
    checkpoints,
    logger,
  }: {
    readonly tenantId: string
    readonly today: CalendarDate
    readonly checkpoints: CheckpointSigner
    readonly logger: Pick<Logger, 'error'>
  },
): Promise<void> {
  const failed = new Set<string>()
  const record = createRecorderFor(
    { actor: { type: 'system', id: 'postern', label: 'Postern' }, tenantId },
    checkpoints,
  )
  for (;;) {
    const expired = await db.read(tenant, async (tx) => listExpired(tx, today, batch + failed.size))
    const ids = expired.filter((id) => !failed.has(id))
    if (ids.length === 0) return
    await db.write(tenant, async (tx) => {
      const drafts: LogDraft[] = []
      for (const id of ids) {
        try {
          drafts.push(...(await runWithSavepoint(tx, async () => await reopen(tx, id, today))))
        } catch (error) {
          failed.add(id)
          logger.error({ event: 'acceptance_not_reopened', tenant_id: tenantId, finding_id: id, err: error })
        }
      }
      await record(tx, drafts)
    })
    if (expired.length < batch) return
  }
}

/** Returns no drafts if another process reopened it first. */
async function reopen(tx: Tx, id: string, today: CalendarDate): Promise<readonly LogDraft[]> {
  const before = await lockFinding(tx, { by: 'id', id })
  const until = before?.accepted_until
  if (before?.status !== 'risk_accepted' || until === undefined || until === null || until >= today) return []
  const after = applyMove(before, { to: 'open', evidence_refs: [] })
  const opened = await updateFinding(tx, before, after)
  const followed = await startRemediation(tx, opened, before.status, await findProgress(tx, id))
  return [
    {
      findingId: id,
      kind: 'system',
      body: `The risk was accepted until ${until}.`,
      changes: [
        { field: 'status', from: before.status, to: after.status },
        { field: 'accepted_until', from: until, to: null },
        { field: 'accepted_by', from: before.accepted_by, to: null },
      ],
      occurredAt: new Date(`${nextDay(until)}T00:00:00Z`),
    },
    ...followed.drafts,
  ]
}
