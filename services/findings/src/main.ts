import { runService } from '@postern/service-kit'
import { findingsService } from './service.ts'

await runService(findingsService)
