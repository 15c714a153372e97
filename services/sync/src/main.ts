import { keepYoungSmall, runService } from '@postern/service-kit'
import { syncService } from './service.ts'

// A run goes through as many rows as its source has.
keepYoungSmall()
await runService(syncService)
