import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { runCheck } from '../check.mjs'
import { mergeReports } from '../merge-reports.mjs'
import { follow, isStopped } from './follow.mjs'

function reportsOf({ root }) {
  return join(root, '.test-reports')
}

/** These keep all processors busy, so they run last, one file at a time. */
const underLoad = ['faults', 'full-wal', 'postgres-failover', 'revocation-under-load'].map(
  (name) => `test/fault/${name}.test.ts`,
)

export async function test(context, args) {
  const reports = reportsOf(context)
  rmSync(reports, { recursive: true, force: true })
  mkdirSync(reports, { recursive: true })
  if (args.length > 0) return await follow('vitest', ['run', ...reporterArguments(context, 'vitest'), ...args], context)
  const checked = await runCheck({ ...context, report: join(reports, 'check.json'), boundaries: false })
  const others = underLoad.flatMap((file) => ['--exclude', file])
  const tested = await follow('vitest', ['run', ...reporterArguments(context, 'vitest'), ...others], context)
  if (isStopped()) return tested
  const faults = ['run', ...reporterArguments(context, 'faults'), '--maxWorkers=1', ...underLoad]
  const withstood = await follow('vitest', faults, context)
  mergeReports(reports, { from: 'faults', into: 'vitest' })
  return checked || tested || withstood
}

function reporterArguments(context, name) {
  const errors = join(context.root, 'packages', 'local-stack', 'errors-reporter.mjs')
  const report = `--outputFile.json=${join(reportsOf(context), `${name}.json`)}`
  return ['--reporter=default', '--reporter=json', `--reporter=${errors}`, report]
}

export async function testFaults(context, args) {
  return await follow('vitest', ['run', 'test/fault/faults.test.ts', ...args], {
    ...context,
    env: { ...context.env, POSTERN_FAULTS: 'long' },
  })
}

export async function testFuzz(context, args) {
  return await follow('vitest', ['run', 'verification/fuzz/contract-fuzzing.test.ts', ...args], {
    ...context,
    env: { POSTERN_FUZZ_MINUTES: '10', ...context.env },
  })
}

/** Uploads 2 GiB in every form and into both stores; the usual run has 96 and 256 MiB. */
export async function testUpload(context, args) {
  return await follow('vitest', ['run', 'test/end-to-end/large-upload', ...args], {
    ...context,
    env: { POSTERN_TEST_UPLOAD_MIB: '2048', ...context.env },
  })
}

export async function testRecovery(context, args) {
  return await follow('vitest', ['run', 'test/recovery', ...reporterArguments(context, 'recovery'), ...args], {
    ...context,
    env: { ...context.env, POSTERN_RECOVERY: 'on' },
  })
}

export async function testOscal(context, args) {
  return await follow('vitest', ['run', 'services/findings/test/oscal', ...args], {
    ...context,
    env: { ...context.env, POSTERN_OSCAL: 'on' },
  })
}
