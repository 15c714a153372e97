import { giveOldRoom, runService } from '@postern/service-kit'
import { findingsService } from './service.ts'

// Lists are read by night, and after many a pause by day.
giveOldRoom()
await runService(findingsService)
