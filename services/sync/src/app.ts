import { type App, enableIdempotency } from '@postern/service-kit'
import { connectorRoutes } from './connector/routes.ts'
import { connectorTestRoutes } from './connector/test-routes.ts'
import { missingRoutes } from './connector/missing-routes.ts'
import type { Deps } from './deps.ts'
import { pushRoutes } from './push/routes.ts'
import { runEventRoutes } from './run/events.ts'
import { runDecisionRoutes } from './run/decision-routes.ts'
import { runRoutes } from './run/routes.ts'
import { startRunRoute } from './run/start-route.ts'
import { scimDescriptionRoutes } from './scim/description-routes.ts'
import { scimGroupRoutes } from './scim/group-routes.ts'
import { scimSearchRoutes } from './scim/search-routes.ts'
import { scimUserRoutes } from './scim/user-routes.ts'
import { webhookDeliveryRoutes } from './webhooks/delivery/routes.ts'
import { webhookRoutes } from './webhooks/endpoint/routes.ts'

export function buildApp(app: App, deps: Deps): void {
  enableIdempotency(app, deps.answers)
  connectorRoutes(app, deps)
  connectorTestRoutes(app, deps)
  missingRoutes(app, deps)
  startRunRoute(app, deps)
  runRoutes(app, deps)
  runDecisionRoutes(app, deps)
  runEventRoutes(app, deps)
  pushRoutes(app, deps)
  scimUserRoutes(app, deps)
  scimGroupRoutes(app, deps)
  scimSearchRoutes(app, deps)
  scimDescriptionRoutes(app, deps)
  webhookRoutes(app, deps)
  webhookDeliveryRoutes(app, deps)
}
