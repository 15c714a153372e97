import { changesRoutes } from './changes/routes.ts'
import { evidenceRoutes } from './evidence/routes.ts'
import { findingsRoutes } from './findings/routes.ts'
import { gatewayRoutes } from './gateway/routes.ts'
import { auditRoutes } from './keys/audit-routes.ts'
import { keysRoutes } from './keys/routes.ts'
import type { Route } from './route.ts'
import { scimRoutes } from './scim/routes.ts'
import { syncRoutes } from './sync/routes.ts'
import { universeRoutes } from './universe/routes.ts'

/** The gateway forwards nothing else. */
export const routeTable: readonly Route[] = [
  ...gatewayRoutes,
  ...keysRoutes,
  ...auditRoutes,
  ...findingsRoutes,
  ...changesRoutes,
  ...universeRoutes,
  ...evidenceRoutes,
  ...syncRoutes,
  ...scimRoutes,
]
