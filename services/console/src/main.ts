import { failStart } from '@postern/service-kit'
import { runConsole } from './service.ts'

try {
  await runConsole(process.env)
} catch (error) {
  failStart('console', error)
}
