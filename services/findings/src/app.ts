import type { App } from '@postern/service-kit'
import type { Deps } from './deps.ts'
import { findingRoutes } from './finding/routes.ts'

/** Registers what the findings service answers. */
export function buildApp(app: App, deps: Deps): void {
  findingRoutes(app, deps)
}
