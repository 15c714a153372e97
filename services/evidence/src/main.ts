import { runService } from '@postern/service-kit'
import { evidenceService } from './service.ts'

await runService(evidenceService)
