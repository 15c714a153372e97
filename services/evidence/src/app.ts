import { type App, enableIdempotency } from '@postern/service-kit'
import type { Config } from './config.ts'
import { contentRoutes } from './content/routes.ts'
import type { Deps } from './deps.ts'
import { fileRoutes } from './file/routes.ts'
import { holdRoutes } from './hold/routes.ts'
import { receiptRoutes } from './receipt/routes.ts'
import { referenceRoutes } from './reference/routes.ts'
import { resumableRoutes } from './resumable/routes.ts'
import { retentionRoutes } from './retention/routes.ts'
import { reviewRoutes } from './review/routes.ts'
import { attachmentRoutes } from './upload/attach.ts'
import { uploadRoutes } from './upload/routes.ts'

export function buildApp(app: App, deps: Deps, config: Config): void {
  enableIdempotency(app, deps.answers)
  uploadRoutes(app, deps, config)
  resumableRoutes(app, deps, config)
  attachmentRoutes(app, deps)
  fileRoutes(app, deps, config)
  contentRoutes(app, deps)
  reviewRoutes(app, deps)
  holdRoutes(app, deps)
  retentionRoutes(app, deps)
  receiptRoutes(app, deps)
  referenceRoutes(app, deps)
}
