import { boundYoung, giveOldRoom, runService } from '@postern/service-kit'
import { syncService } from './service.ts'

// A run goes through as many rows as its source has, and connectors run once a night.
giveOldRoom()
boundYoung(32 * 1024 * 1024)
await runService(syncService)
