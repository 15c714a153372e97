import { giveOldRoom, runService } from '@postern/service-kit'
import { findingsService } from './service.ts'

// Large lists are read after long idle times.
giveOldRoom()
await runService(findingsService)
