import { type App, enableIdempotency } from '@postern/service-kit'
import { rotationRoutes } from './api-key/rotation-routes.ts'
import { apiKeyRoutes } from './api-key/routes.ts'
import { feedRoutes } from './audit-feed/routes.ts'
import { auditRoutes } from './audit/routes.ts'
import { bulkRoutes } from './bulk/routes.ts'
import type { Deps } from './deps.ts'
import { explainRoutes } from './explain/routes.ts'
import { findKeyRoutes } from './leak/find-routes.ts'
import { healthRoutes } from './health/routes.ts'
import { githubRoutes } from './leak/github-routes.ts'
import { reportLeakRoutes } from './leak/report-routes.ts'
import { lookupRoutes } from './lookup/routes.ts'
import { memberRoutes } from './member/routes.ts'
import { policyRoutes } from './policy/routes.ts'
import { leaseRoutes } from './revocation/routes.ts'
import { tenantRoutes } from './tenant/routes.ts'
import { usageRoutes } from './usage/routes.ts'

export function buildApp(app: App, deps: Deps): void {
  enableIdempotency(app, deps.answers)
  apiKeyRoutes(app, deps)
  rotationRoutes(app, deps)
  bulkRoutes(app, deps)
  explainRoutes(app, deps)
  findKeyRoutes(app, deps)
  reportLeakRoutes(app, deps)
  githubRoutes(app, deps)
  auditRoutes(app, deps)
  feedRoutes(app, deps)
  healthRoutes(app, deps)
  policyRoutes(app, deps)
  memberRoutes(app, deps)
  lookupRoutes(app, deps)
  leaseRoutes(app, deps)
  usageRoutes(app, deps)
  tenantRoutes(app, deps)
}
