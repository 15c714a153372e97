import { type Logger, repeatEvery } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { recordOverdue } from './store.ts'

/** A new day in UTC is noticed within a minute; more than 1,000 take a minute for each further thousand. */
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
