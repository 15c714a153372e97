import type { App } from '@postern/service-kit'
import { currentRowRoutes } from './current-rows/routes.ts'
import type { Deps } from './deps.ts'
import { entityRoutes } from './entity/routes.ts'
import { hierarchyRoutes } from './hierarchy/routes.ts'
import { applyRoutes } from './import/apply-routes.ts'
import { importListRoutes } from './import/list-routes.ts'
import { planRoutes } from './import/plan-routes.ts'
import { personRoutes } from './person/routes.ts'
import { pushHierarchyRoutes } from './push-hierarchy/routes.ts'
import { pushPeopleRoutes } from './push-people/routes.ts'
import { pushTestProcedureRoutes } from './push-test-procedures/routes.ts'
import { pushRoutes } from './push/routes.ts'
import { referenceRoutes } from './reference/routes.ts'
import { sourceRoutes } from './source/routes.ts'
import { subtreeRoutes } from './subtree/routes.ts'
import { testProcedureRoutes } from './test-procedure/routes.ts'

export function buildApp(app: App, deps: Deps): void {
  entityRoutes(app, deps)
  hierarchyRoutes(app, deps)
  testProcedureRoutes(app, deps)
  personRoutes(app, deps)
  subtreeRoutes(app, deps)
  referenceRoutes(app, deps)
  currentRowRoutes(app, deps)
  sourceRoutes(app, deps)
  planRoutes(app, deps)
  applyRoutes(app, deps)
  importListRoutes(app, deps)
  pushRoutes(app, deps)
  pushHierarchyRoutes(app, deps)
  pushTestProcedureRoutes(app, deps)
  pushPeopleRoutes(app, deps)
}
