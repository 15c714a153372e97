import { type Logger, ProblemError } from '@postern/service-kit'
import type { TenantAssertion, TenantDb, Tx } from '@postern/tenant-db'
import { tenantOf } from '../../sql/store.ts'
import { runWithSavepoint } from '../../bulk/store.ts'
import { type CalendarDate, nextDay } from '../rules.ts'
import { createRecorderFor } from '../../tracker-log/record.ts'
import type { LogDraft } from '../../tracker-log/rules.ts'
import { sealedCheckpoint } from '../../tracker-log/seal.ts'
import { LogContradictedError } from '../../tracker-log/signed-end.ts'
import type { LogSealer } from '../../tracker-log/sealer.ts'
import type { CheckpointSigner } from '../../tracker-log/sign.ts'
import { startRemediation } from '../change.ts'
import { findProgress, lockFinding, updateFinding } from '../store.ts'
import { applyMove } from '../transitions.ts'
import { listExpired } from './store.ts'

const batch = 100

/**
 * The first request of a tenant on a day (UTC) reopens findings with expired acceptances and stores the last day's
 * checkpoint. Other requests wait for it.
 */
export function reopenExpiredOnFirstUse(
  db: TenantDb,
  parts: {
    readonly now: () => Date
    readonly checkpoints: CheckpointSigner
    readonly sealer: Pick<LogSealer, 'settle'>
    readonly logger: Pick<Logger, 'error'>
  },
): TenantDb {
  let day = ''
  let begun = new Map<string, Promise<void>>()
  // Keeps only the assertion: the first client may disconnect while others wait.
  const sweepOnce = ({ assertion }: TenantAssertion): Promise<void> => {
    const tenant = { assertion }
    const today = parts.now().toISOString().slice(0, 10)
    if (today !== day) {
      day = today
      begun = new Map()
    }
    const tenantId = tenantOf(assertion)
    const known = begun.get(tenantId)
    if (known !== undefined) return known
    const of = begun
    const logFailure = (event: string) => (error: unknown) => {
      of.delete(tenantId)
      // A contradicted log stays readable and rejects writes itself.
      if (error instanceof ProblemError && !(error instanceof LogContradictedError)) throw error
      parts.logger.error({ event, err: error })
    }
    // Seals left entries, then the day before, and only then writes entries of today.
    const sweep = parts.sealer
      .settle(tenant)
      .then(async () => await sealedCheckpoint(db, tenant, { tenantId, checkpoints: parts.checkpoints }))
      .then((sealed) => {
        if (sealed.today !== today) of.delete(tenantId)
      })
      .catch(logFailure('day_not_sealed'))
      .then(async () => await reopenAll(db, tenant, { ...parts, tenantId, today }))
      .catch(logFailure('acceptances_not_reopened'))
    begun.set(tenantId, sweep)
    return sweep
  }
  return {
    ...db,
    read: async (tenant, fn) => {
      await sweepOnce(tenant)
      return await db.read(tenant, fn)
    },
    write: async (tenant, fn) => {
      await sweepOnce(tenant)
      return await db.write(tenant, fn)
    },
  }
}

async function reopenAll(
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

/** Empty if another process reopened it first. */
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
