import { runCheck, runFix } from '../check.mjs'
import { follow } from './follow.mjs'
import { installed, inventory } from './inventory.mjs'
import { fromProgram, fromSource } from './programs.mjs'
import { test, testFaults, testFuzz, testOscal, testRecovery, testUpload } from './tests.mjs'

const start = fromProgram('start')
const postern = fromProgram('postern')

/** The commands of the npm scripts, by name. Each returns its exit code. */
export const commands = {
  start: (context, args) => start({ ...context, leash: true }, args),
  test,
  'test:faults': testFaults,
  'test:fuzz': testFuzz,
  'test:upload': testUpload,
  'test:oscal': testOscal,
  // Mutation tests of the code that decides about access.
  'test:mutation': fromSource('verification/mutation/run.ts'),
  // Half an hour of steady load, to find leaks.
  'test:soak': fromSource('verification/soak/run.ts'),
  check: (context) => runCheck({ ...context, follow, boundaries: true }),
  fix: (context) => runFix({ ...context, follow }),
  // Packages with hashes and licences, for audits.
  sbom: inventory([...installed, 'sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--prod']),
  licences: inventory([...installed, 'licenses', 'list', '--prod']),
  bench: fromSource('verification/bench/run.ts'),
  docs: fromSource('verification/documents/run.ts'),
  'test:recovery': testRecovery,
  'test:containers': fromSource('verification/containers/run.ts'),
  // The caller's folder, for relative paths in arguments.
  postern: (context, args) => postern({ ...context, cwd: process.env.INIT_CWD ?? process.cwd() }, args),
}
