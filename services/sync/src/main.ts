import { runService } from '@postern/service-kit'
import { syncService } from './service.ts'

await runService(syncService)
