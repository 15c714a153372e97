import { runService } from '@postern/service-kit'
import { universeService } from './service.ts'

await runService(universeService)
