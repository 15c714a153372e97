import type { App } from '@postern/service-kit'
import type { Deps } from './deps.ts'
import { entityRoutes } from './entity/routes.ts'
import { pushRoutes } from './push/routes.ts'

/** Registers what the universe service answers: reads for clients, and the push of the sync service. */
export function buildApp(app: App, deps: Deps): void {
  entityRoutes(app, deps)
  pushRoutes(app, deps)
}
