// A missing, empty or unreadable report, an error outside tests and an unexplained exit code each count as a failure.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const reports = join(root, '.test-reports')

/** Undefined if the report is missing or unreadable. */
function read(name) {
  try {
    return JSON.parse(readFileSync(join(reports, name), 'utf8'))
  } catch (error) {
    process.stderr.write(`no report ${name}: ${error.message}\n`)
    return undefined
  }
}

const shorten = (text) => String(text).split('\n').slice(0, 12).join('\n    ')

function sumChecks() {
  const results = read('check.json')
  if (!Array.isArray(results) || results.length === 0)
    return { passed: 0, failures: ['npm test left no report of its checks that can be read'] }
  const failed = results.filter(({ ok }) => ok !== true)
  return { passed: results.length - failed.length, failures: failed.map(({ name }) => `${name ?? 'a check'}`) }
}

function failuresOf(file) {
  const where = String(file.name ?? 'a file').replace(root, '')
  const tests = (file.assertionResults ?? []).filter(({ status }) => status === 'failed')
  // A file that failed without a failed test did not load, or its hooks failed.
  if (tests.length === 0)
    return file.status === 'passed' ? [] : [`${where}: ${shorten(file.message || 'did not load')}`]
  return tests.map(
    ({ fullName, title, failureMessages }) =>
      `${where} > ${fullName ?? title}\n    ${shorten(failureMessages?.[0] ?? '')}`,
  )
}

/** The report omits these errors: see packages/local-stack/errors-reporter.mjs. */
function errorsOf(name) {
  const path = `${name}.errors.json`
  const errors = existsSync(join(reports, path)) ? read(path) : []
  if (!Array.isArray(errors)) return [`${path} cannot be read`]
  return errors.map(({ kind, text, during }) => {
    const where = during === undefined ? 'outside every test' : `outside every test, while this ran: ${during}`
    return `${kind ?? 'an error'} ${where}\n    ${shorten(text)}`
  })
}

function sumTests(name, { command, status, isExplained = false }) {
  const report = read(`${name}.json`)
  const files = report?.testResults
  if (!Array.isArray(files))
    return { passed: 0, failures: [`${command} ended with code ${status} and left no report that can be read`] }
  const tests = files.flatMap((file) => file.assertionResults ?? [])
  const passed = tests.filter((test) => test.status === 'passed').length
  const failures = [...files.flatMap(failuresOf), ...errorsOf(name)]
  if (failures.length > 0) return { passed, failures }
  if (passed === 0) return { passed, failures: [`${command} ended with code ${status} and ran no test`] }
  if (report.success !== true || (status !== '0' && !isExplained))
    failures.push(
      `${command} ended with code ${status} and no test failed: an error outside every test. See "Unhandled Errors" and "error during close" above.`,
    )
  return { passed, failures }
}

/** 'none': not run. Skipped container tests leave no report, and exit code 0. */
function sumContainers(status) {
  const isThere = existsSync(join(reports, 'containers.json'))
  if (status === 'none' || (status === '0' && !isThere)) return { passed: 0, failures: [] }
  return sumTests('containers', { command: 'npm run test:containers', status })
}

const [, , testStatus, recoveryStatus, containerStatus = 'none'] = process.argv
const checks = sumChecks()
const sums = [
  checks,
  sumTests('vitest', { command: 'npm test', status: testStatus, isExplained: checks.failures.length > 0 }),
  sumTests('recovery', { command: 'npm run test:recovery', status: recoveryStatus }),
  sumContainers(containerStatus),
]
const passed = sums.reduce((sum, each) => sum + each.passed, 0)
const failures = sums.flatMap((each) => each.failures)
// Printed last, because often only the end of a log is kept.
for (const failure of failures) process.stdout.write(`\nFAILED ${failure}\n`)
process.stdout.write(`\n${passed} passed, ${failures.length} failed\n`)
process.exitCode = failures.length === 0 ? 0 : 1
