import { type Logger, repeatEvery } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { recordOverdue } from './store.ts'

/** Findings and plans that become overdue at midnight (UTC) are recorded within a minute, or 1,000 of each a minute. */
const everyMs = 60_000

export function watchOverdue({
  db,
  logger,
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly logger: Pick<Logger, 'warn'>
}): { stop(): Promise<void> } {
  return repeatEvery(everyMs, async () => {
    await db.system(recordOverdue).catch((error: unknown) => logger.warn({ event: 'overdue_not_noted', err: error }))
  })
}
