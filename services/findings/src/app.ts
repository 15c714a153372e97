import { type App, enableIdempotency } from '@postern/service-kit'
import { actionPlanRoutes } from './action-plan/routes.ts'
import { bulkRoutes } from './bulk/routes.ts'
import { changeRoutes } from './change/routes.ts'
import type { Deps } from './deps.ts'
import { createDayStart } from './finding/acceptance/start-day.ts'
import { findingRoutes } from './finding/routes.ts'
import { openCountRoutes } from './open-counts/routes.ts'
import { poamRoutes } from './poam/routes.ts'
import { recommendationRoutes } from './recommendation/routes.ts'
import { withNumberSeries } from './reference/store.ts'
import { sealAfterWrites } from './tracker-log/sealer.ts'
import { trackerLogRoutes } from './tracker-log/routes.ts'

export function buildApp(app: App, opened: Deps): void {
  enableIdempotency(app, opened.answers)
  const db = sealAfterWrites(withNumberSeries(opened.db), opened.sealer)
  const deps = { ...opened, db }
  // A tenant's first request of a day seals the previous day's log and reopens findings with expired acceptances.
  const startDay = createDayStart(db, opened)
  app.addHook('preHandler', async ({ tenantContext }) => {
    if (tenantContext !== undefined) await startDay(tenantContext)
  })
  findingRoutes(app, deps)
  recommendationRoutes(app, deps)
  actionPlanRoutes(app, deps)
  bulkRoutes(app, deps)
  poamRoutes(app, deps)
  changeRoutes(app, deps)
  trackerLogRoutes(app, deps)
  openCountRoutes(app, deps)
}
