// Sums the reports of `npm test`. Deny by default: a report that is missing, empty or cannot be read, a file that did
// not load and an exit code that nothing explains each count as a failure.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const reports = fileURLToPath(new URL('../.test-reports/', import.meta.url))

function read(name) {
  try {
    return JSON.parse(readFileSync(join(reports, name), 'utf8'))
  } catch (error) {
    process.stderr.write(`no report ${name}: ${error.message}\n`)
    return undefined
  }
}

function sumChecks(results) {
  if (!Array.isArray(results) || results.length === 0) return { passed: 0, failed: 1 }
  const passed = results.filter(({ ok }) => ok === true).length
  return { passed, failed: results.length - passed }
}

function sumTests(report) {
  if (!Array.isArray(report?.testResults)) return { passed: 0, failed: 1 }
  let passed = 0
  let failed = 0
  for (const file of report.testResults) {
    const tests = file.assertionResults ?? []
    const failures = tests.filter(({ status }) => status === 'failed').length
    passed += tests.filter(({ status }) => status === 'passed').length
    // A file that failed without a failed test did not load, or its hooks failed.
    failed += failures === 0 && file.status !== 'passed' ? 1 : failures
  }
  if (passed === 0 && failed === 0) failed = 1
  // Errors outside every test: vitest fails, and no test says so.
  if (failed === 0 && report.success !== true) failed = 1
  return { passed, failed }
}

const [checks, tests] = [sumChecks(read('check.json')), sumTests(read('vitest.json'))]
const passed = checks.passed + tests.passed
let failed = checks.failed + tests.failed
if (failed === 0 && process.argv[2] !== '0') failed = 1
process.stdout.write(`\n${passed} passed, ${failed} failed\n`)
process.exitCode = failed === 0 ? 0 : 1
