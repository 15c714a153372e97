// Sums the reports of `npm test`, of `npm run test:recovery`, and of `npm run test:containers` where that ran. Deny by default: a
// report that is missing, empty or cannot be read, a file that did not load and an exit code that nothing explains each count as a
// failure.
import { existsSync, readFileSync } from 'node:fs'
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

/** The tests of one report, whose command ended with this exit code. */
function sumReport(name, status) {
  const sum = sumTests(read(name))
  return status !== '0' && sum.failed === 0 ? { ...sum, failed: 1 } : sum
}

const short = (text) => String(text).split('\n').slice(0, 12).join('\n    ')

/** Each failure once more, as the last that is printed: of a long run often only the end is kept. */
function failuresIn(name) {
  if (!existsSync(join(reports, name))) return []
  const report = read(name)
  if (Array.isArray(report)) return report.filter(({ ok }) => ok !== true).map((check) => `${check.name ?? 'a check'}`)
  return (report?.testResults ?? []).flatMap((file) => {
    const where = String(file.name ?? 'a file').replace(fileURLToPath(new URL('..', import.meta.url)), '')
    const tests = (file.assertionResults ?? []).filter(({ status }) => status === 'failed')
    if (tests.length === 0)
      return file.status === 'passed' ? [] : [`${where}: ${short(file.message || 'did not load')}`]
    return tests.map(
      (each) => `${where} > ${each.fullName ?? each.title}\n    ${short(each.failureMessages?.[0] ?? '')}`,
    )
  })
}

/** 'none': not run. Run and skipped by themselves, they leave no report, and exit code 0. */
function sumContainers(status) {
  const isThere = existsSync(join(reports, 'containers.json'))
  if (status === 'none' || (status === '0' && !isThere)) return { passed: 0, failed: 0 }
  return sumReport('containers.json', status)
}

const [, , testStatus, recoveryStatus, containerStatus = 'none'] = process.argv
const sums = [sumChecks(read('check.json')), sumTests(read('vitest.json'))]
if (testStatus !== '0' && sums.every(({ failed }) => failed === 0)) sums.push({ passed: 0, failed: 1 })
sums.push(sumReport('recovery.json', recoveryStatus), sumContainers(containerStatus))
const passed = sums.reduce((sum, each) => sum + each.passed, 0)
const failed = sums.reduce((sum, each) => sum + each.failed, 0)
for (const name of ['check.json', 'vitest.json', 'recovery.json', 'containers.json']) {
  for (const failure of failuresIn(name)) process.stdout.write(`\nFAILED ${failure}\n`)
}
process.stdout.write(`\n${passed} passed, ${failed} failed\n`)
process.exitCode = failed === 0 ? 0 : 1
