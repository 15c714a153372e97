import { runService } from '@postern/service-kit'
import { keysService } from './service.ts'

await runService(keysService)
