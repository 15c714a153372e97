// `npm run test:mutation`: runs the tests of each area against StrykerJS mutants. Unchanged files are skipped unless
// `--again` is given.
import { readFile } from 'node:fs/promises'
import { getPriority, setPriority } from 'node:os'
import { join } from 'node:path'
import { Stryker } from '@stryker-mutator/core'
import { exitWithUsage, parseArguments } from '../arguments.ts'
import { type Area, areas } from './areas.ts'
import { type Mutant, type Reason, type Verdict, judge } from './judge.ts'
import {
  type Result,
  type Results,
  filesOf,
  isOld,
  requiredScore,
  resultOf,
  resultsSchema,
  sourceOf,
  stateOfTests,
  sumOf,
  tableOf,
  testsOf,
} from './results.ts'
import { readResults, writeResults } from '../../test/support/results.ts'

const root = join(import.meta.dirname, '..', '..')

const areaNames = areas.map(({ name }) => name)
const usage = `Usage: npm run test:mutation -- [area…] [options]
  --file FILE  change this file of the area; may be given several times
  --again      run unchanged files again
The areas are ${areaNames.join(', ')}.`
const { values, positionals } = parseArguments(
  usage,
  { file: { type: 'string', multiple: true }, again: { type: 'boolean', default: false } },
  areaNames,
)

/** One mutant after the other. */
async function mutate(area: Area, file: string): Promise<Mutant[]> {
  if (area.needsServers) delete process.env['POSTERN_TEST_SERVERS']
  else process.env['POSTERN_TEST_SERVERS'] = 'none'
  process.env['POSTERN_MUTATION_TESTS'] = JSON.stringify(testsOf(area, file))
  // The same for every mutant and run.
  process.env['POSTERN_SEED'] ??= '7'
  const stryker = new Stryker({
    configFile: join(import.meta.dirname, 'stryker.config.json'),
    plugins: [import.meta.resolve('@stryker-mutator/vitest-runner')],
    // No other program searches for sources there.
    tempDirName: '.tools/mutation',
    mutate: [file],
    // A busy machine must not look like an endless loop.
    timeoutMS: area.needsServers ? 60_000 : 20_000,
    reporters: ['dots'],
  })
  const results = await stryker.runMutationTest()
  const source = await readFile(join(root, file), 'utf8')
  return results.map(({ location, mutatorName, replacement, status, statusReason }) => {
    const original = cut(source, location)
    const isTimeOut = status === 'Killed' && timedOutPattern.test(statusReason ?? '')
    return {
      file,
      line: location.start.line,
      mutator: mutatorName,
      original,
      replacement,
      status: isTimeOut ? 'Timeout' : status,
    }
  })
}

const remarkable: Readonly<Record<string, string>> = {
  Timeout: 'timed out',
  RuntimeError: 'failed before or after the tests',
}

/** Vitest's message for a timed-out test, which proves no more than StrykerJS's own limit. */
const timedOutPattern = /^(?:Test|Hook) timed out in \d+ms/

interface Place {
  readonly line: number
  readonly column: number
}

/** Lines and columns start at 1. */
function cut(source: string, { start, end }: { readonly start: Place; readonly end: Place }): string {
  const lines = source.split('\n')
  const offset = ({ line, column }: Place): number =>
    lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + column - 1
  return source.slice(offset(start), offset(end))
}

function print(name: string, { noticed, timedOut, unnoticed, score, survivors, idle }: Verdict, minutes: number): void {
  for (const { mutant, because } of survivors) {
    const { file, line, original, replacement, status, mutator } = mutant
    process.stdout.write(
      `${file}:${line} ${status} ${mutator}: ${JSON.stringify(original)} -> ${JSON.stringify(replacement)}\n` +
        `  ${because ?? 'NO REASON'}\n`,
    )
  }
  for (const { file, original } of idle) process.stdout.write(`unused reason: ${file} ${original}\n`)
  process.stdout.write(
    `mutation: ${name}: ${noticed} of ${noticed + unnoticed} noticed (${timedOut} by timeout), ` +
      `score ${score} %, ` +
      `${survivors.filter(({ because }) => because === undefined).length} survivors without a reason, ` +
      `${minutes.toFixed(1)} minutes\n`,
  )
}

async function readReasons(): Promise<Reason[]> {
  return JSON.parse(await readFile(join(import.meta.dirname, 'survivors.json'), 'utf8'))
}

async function keep(area: string, file: string, result: Result): Promise<void> {
  const results = await readKept()
  const ofArea = Object.entries({ ...results[area], [file]: result }).toSorted(([a], [b]) => (a < b ? -1 : 1))
  await writeResults('mutation', { ...results, [area]: Object.fromEntries(ofArea) })
}

async function readKept(): Promise<Results> {
  return resultsSchema.parse(JSON.parse((await readResults('mutation')) ?? '{}'))
}

// Long areas run only if they are named.
setPriority(Math.max(10, getPriority()))
const asked = areas.filter(({ name }) => positionals.length === 0 || positionals.includes(name))
for (const file of values.file ?? []) {
  const isInAll = asked.every((area) => filesOf(area, root).includes(file))
  if (!isInAll) exitWithUsage(`Name the one area that changes ${file}.`, usage)
}
const reasons = await readReasons()
for (const area of asked) {
  const verdicts: Verdict[] = []
  for (const file of values.file ?? filesOf(area, root)) {
    const kept = (await readKept())[area.name]?.[file]
    const source = sourceOf(root, file)
    const tests = stateOfTests(area, file, root)
    if (kept !== undefined && !isOld(area, file, kept, root) && !values.again && values.file === undefined) {
      process.stdout.write(`mutation: ${file}: kept from ${kept.date}\n`)
      continue
    }
    const startedAt = performance.now()
    const mutants = await mutate(area, file)
    const minutes = (performance.now() - startedAt) / 60_000
    const verdict = judge(mutants, reasons)
    verdicts.push(verdict)
    for (const { status, line, original, replacement } of mutants) {
      const what = remarkable[status]
      if (what === undefined) continue
      process.stdout.write(`${file}:${line} ${what}: ${JSON.stringify(original)} -> ${JSON.stringify(replacement)}\n`)
    }
    print(file, verdict, minutes)
    const about = { date: new Date().toISOString().slice(0, 10), source, tests, minutes: Math.round(minutes * 10) / 10 }
    await keep(area.name, file, resultOf(mutants, about))
  }
  const results = await readKept()
  process.stdout.write(`${tableOf(results, reasons).find((row) => row.startsWith(`| ${area.name} |`))}\n`)
  if (verdicts.some(({ idle }) => idle.length > 0)) process.exitCode = 1
  const { score, unexplained } = sumOf(results[area.name] ?? {}, reasons)
  if (score < requiredScore || unexplained > 0) process.exitCode = 1
}
