import { runCheck, runFix } from '../check.mjs'
import { follow } from './follow.mjs'
import { installed, inventory } from './inventory.mjs'
import { fromProgram, fromSource } from './programs.mjs'
import { test, testFaults, testFuzz, testOscal, testRecovery, testUpload } from './tests.mjs'

const start = fromProgram('start')
const postern = fromProgram('postern')

/** The others take arguments, which their programs check. */
export const withoutArguments = {
  start:
    'Runs PostgreSQL, Redis, all services, the console and two demo tenants. Environment variables change it: POSTERN_HOME, ' +
    'POSTERN_PORT, POSTERN_GATEWAYS, POSTERN_CONSOLE_PORT, POSTERN_DEMO_SCALE and the settings of the services.',
  check: 'Checks types, lint, formatting, unused code, spelling and boundaries.',
  fix: 'Formats the code and fixes what the linter can fix.',
  docs: 'Writes the generated documents.',
}

export const commands = {
  start: (context) => start({ ...context, isGuarded: true }, []),
  test,
  'test:faults': testFaults,
  'test:fuzz': testFuzz,
  'test:upload': testUpload,
  'test:oscal': testOscal,
  'test:mutation': fromSource('verification/mutation/run.ts'),
  'test:soak': fromSource('verification/soak/run.ts'),
  check: (context) => runCheck({ ...context, follow, boundaries: true }),
  fix: (context) => runFix({ ...context, follow }),
  sbom: inventory([...installed, 'sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--prod']),
  licences: inventory([...installed, 'licenses', 'list', '--prod']),
  bench: fromSource('verification/bench/run.ts'),
  docs: fromSource('verification/documents/run.ts'),
  client: fromSource('verification/documents/typescript/run.ts'),
  'test:recovery': testRecovery,
  'test:clients': fromSource('verification/clients/run.ts'),
  'test:containers': fromSource('verification/containers/run.ts'),
  'test:providers': fromSource('verification/providers/run.ts'),
  postern: (context, args) => postern({ ...context, cwd: process.env.INIT_CWD ?? process.cwd() }, args),
}
