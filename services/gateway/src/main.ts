import { failStart, makeAllYoung } from '@postern/service-kit'
import { runGateway } from './run-gateway.ts'

makeAllYoung()

try {
  await runGateway(process.env)
} catch (error) {
  failStart('gateway', error)
}
