// After a whole run of `npm test`: `node test/repository/count-cases.ts` puts how many tests of each file
// have passed into bench/cases.json, and into the figures of ASSURANCE.md. For a run of another clone: the path of its report, and
// what that clone had checked out where that is no longer so.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { z } from 'zod'
import { type PassedCases, withCases } from '../support/assurance.ts'

const root = join(import.meta.dirname, '..', '..')
const [given = join(root, '.test-reports', 'vitest.json'), commit] = process.argv.slice(2)

const report = z
  .object({
    success: z.literal(true, 'not all tests have passed'),
    startTime: z.number(),
    testResults: z.array(z.object({ name: z.string(), assertionResults: z.array(z.object({ status: z.string() })) })),
  })
  .parse(JSON.parse(readFileSync(given, 'utf8')))

// The report may be of another clone.
const tested = dirname(dirname(resolve(given)))
const files = report.testResults.map(({ name, assertionResults }): [string, number] => [
  relative(tested, name),
  assertionResults.filter(({ status }) => status === 'passed').length,
])
const cases: PassedCases = {
  date: new Date(report.startTime).toISOString().slice(0, 10),
  commit: commit ?? execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: tested, encoding: 'utf8' }).trim(),
  files: Object.fromEntries(files.filter(([, passed]) => passed > 0).toSorted(([a], [b]) => (a < b ? -1 : 1))),
}
writeFileSync(join(root, 'bench', 'cases.json'), `${JSON.stringify(cases, undefined, 2)}\n`)
const assurance = join(root, 'ASSURANCE.md')
writeFileSync(assurance, withCases(readFileSync(assurance, 'utf8'), cases))
