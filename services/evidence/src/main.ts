import { keepYoungSmall, runService } from '@postern/service-kit'
import { evidenceService } from './service.ts'

// A file passes in as many chunks as it has.
keepYoungSmall()
await runService(evidenceService)
