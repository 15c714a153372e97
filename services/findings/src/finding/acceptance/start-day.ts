import { type Logger, ProblemError } from '@postern/service-kit'
import type { TenantAssertion, TenantDb } from '@postern/tenant-db'
import { tenantOf } from '../../sql/store.ts'
import { sealedCheckpoint } from '../../tracker-log/seal.ts'
import type { LogSealer } from '../../tracker-log/sealer.ts'
import type { CheckpointSigner } from '../../tracker-log/sign.ts'
import { LogContradictedError } from '../../tracker-log/signed-end.ts'
import { reopenExpired } from './reopen.ts'

/**
 * Once per tenant and day (UTC), stores the last day's checkpoint and reopens findings with expired acceptances.
 * Concurrent calls wait for the first one.
 */
export function createDayStart(
  db: TenantDb,
  parts: {
    readonly now: () => Date
    readonly checkpoints: CheckpointSigner
    readonly sealer: Pick<LogSealer, 'settle'>
    readonly logger: Pick<Logger, 'error'>
  },
): (tenant: TenantAssertion) => Promise<void> {
  const { checkpoints, sealer, logger } = parts
  let day = ''
  let started = new Map<string, Promise<void>>()

  /** Returns whether nothing is left to do on this day. */
  async function start(tenant: TenantAssertion, tenantId: string, today: string): Promise<boolean> {
    let isDone = true
    const logFailure = (event: string) => (error: unknown) => {
      // A contradicted log stays readable and rejects writes itself.
      if (error instanceof ProblemError && !(error instanceof LogContradictedError)) throw error
      isDone = false
      logger.error({ event, err: error })
    }
    // The previous day must be sealed before today's entries are written.
    await sealer
      .settle(tenant)
      .then(async () => await sealedCheckpoint(db, tenant, { tenantId, checkpoints }))
      .then((sealed) => {
        if (sealed.today !== today) isDone = false
      })
      .catch(logFailure('day_not_sealed'))
    await reopenExpired(db, tenant, { checkpoints, logger, tenantId, today }).catch(
      logFailure('acceptances_not_reopened'),
    )
    return isDone
  }

  return async ({ assertion }) => {
    const today = parts.now().toISOString().slice(0, 10)
    if (today !== day) {
      day = today
      started = new Map()
    }
    const ofDay = started
    const tenantId = tenantOf(assertion)
    // Keeps only the assertion: the first client may disconnect while others wait.
    const running =
      ofDay.get(tenantId) ??
      start({ assertion }, tenantId, today).then(
        (isDone) => {
          if (!isDone) ofDay.delete(tenantId)
        },
        (error: unknown) => {
          ofDay.delete(tenantId)
          throw error
        },
      )
    ofDay.set(tenantId, running)
    await running
  }
}
