import { type Logger, ProblemError } from '@postern/service-kit'
import type { TenantAssertion, TenantDb, Tx } from '@postern/tenant-db'
import { tenantOf } from '../../sql/store.ts'
import { attempt } from '../../bulk/store.ts'
import { type CalendarDate, nextDay } from '../rules.ts'
import { recorderFor } from '../../tracker-log/record.ts'
import type { LogDraft } from '../../tracker-log/rules.ts'
import { sealedCheckpoint } from '../../tracker-log/seal.ts'
import { LogContradicted } from '../../tracker-log/signed-end.ts'
import type { LogSealer } from '../../tracker-log/sealer.ts'
import type { CheckpointSigner } from '../../tracker-log/sign.ts'
import { followPlansUnderWay } from '../change.ts'
import { findProgress, lockFinding, updateFinding } from '../store.ts'
import { moved } from '../transitions.ts'
import { listExpired } from './store.ts'

const batch = 100

/**
 * The same database, in which acceptances that have run out are open again before anybody reads or writes, and the last day
 * on which something was logged has its checkpoint: the first request of a tenant on a day (UTC) sees to both, under the
 * assertion that it came with, and others wait for it. Nobody can see a state of before, and nothing needs a right to act for
 * a tenant that asks for nothing.
 */
export function reopeningExpired(
  db: TenantDb,
  parts: {
    readonly now: () => Date
    readonly checkpoints: CheckpointSigner
    readonly sealer: Pick<LogSealer, 'settle'>
    readonly logger: Logger
  },
): TenantDb {
  let day = ''
  let begun = new Map<string, Promise<void>>()
  // HOT PATH: a look into a map. It holds the tenants of one day.
  const swept = (tenant: TenantAssertion): Promise<void> => {
    const today = parts.now().toISOString().slice(0, 10)
    if (today !== day) {
      day = today
      begun = new Map()
    }
    const tenantId = tenantOf(tenant.assertion)
    const known = begun.get(tenantId)
    if (known !== undefined) return known
    const of = begun
    const orLogged = (event: string) => (error: unknown) => {
      of.delete(tenantId)
      // Away or overloaded: so is the request that waits for this. Anything else must not keep it from its answer.
      // What is there of a log that does not hold can be read: it refuses itself whatever would be added to it.
      if (error instanceof ProblemError && !(error instanceof LogContradicted)) throw error
      parts.logger.error({ event, err: error })
    }
    // The end of the day before is signed first: what is written now is of today. Whether that is over says the clock of the
    // database; where the two have different days, the next request looks again.
    // Entries that a process has left unsealed when it died come first.
    const sweep = parts.sealer
      .settle(tenant)
      .then(async () => await sealedCheckpoint(db, tenant, { tenantId, checkpoints: parts.checkpoints }))
      .then((sealed) => {
        if (sealed.today !== today) of.delete(tenantId)
      })
      .catch(orLogged('day_not_sealed'))
      .then(async () => await reopenAll(db, tenant, { ...parts, tenantId, today }))
      .catch(orLogged('acceptances_not_reopened'))
    begun.set(tenantId, sweep)
    return sweep
  }
  return {
    ...db,
    read: async (tenant, fn) => {
      await swept(tenant)
      return await db.read(tenant, fn)
    },
    write: async (tenant, fn) => {
      await swept(tenant)
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
    readonly logger: Logger
  },
): Promise<void> {
  // One that cannot be opened keeps none of the others accepted, and is not tried again before tomorrow.
  const failed = new Set<string>()
  const record = recorderFor({ actor: { type: 'system', id: 'postern', label: 'Postern' }, tenantId }, checkpoints)
  for (;;) {
    const expired = await db.read(tenant, async (tx) => listExpired(tx, today, batch + failed.size))
    const ids = expired.filter((id) => !failed.has(id))
    if (ids.length === 0) return
    await db.write(tenant, async (tx) => {
      const drafts: LogDraft[] = []
      for (const id of ids) {
        try {
          drafts.push(...(await attempt(tx, async () => await reopen(tx, id, today))))
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

/** Opens one finding whose acceptance is over; gives what to log of it, nothing where another process was quicker. */
async function reopen(tx: Tx, id: string, today: CalendarDate): Promise<readonly LogDraft[]> {
  const before = await lockFinding(tx, { by: 'id', id })
  const until = before?.accepted_until
  if (before?.status !== 'risk_accepted' || until === undefined || until === null || until >= today) return []
  const after = moved(before, { to: 'open', evidence_refs: [] })
  const opened = await updateFinding(tx, before, after)
  const followed = await followPlansUnderWay(tx, opened, before.status, await findProgress(tx, id))
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
