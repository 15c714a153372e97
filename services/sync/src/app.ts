import { type App, rememberAnswers } from '@postern/service-kit'
import { connectorRoutes } from './connector/routes.ts'
import type { Deps } from './deps.ts'
import { pushRoutes } from './push/routes.ts'

/** Registers what the sync service answers. */
export function buildApp(app: App, deps: Deps): void {
  rememberAnswers(app, deps.answers)
  connectorRoutes(app, deps)
  pushRoutes(app, deps)
}
