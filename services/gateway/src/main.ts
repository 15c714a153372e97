import { failStart } from '@postern/service-kit'
import { runGateway } from './run-gateway.ts'

try {
  await runGateway(process.env)
} catch (error) {
  failStart('gateway', error)
}
