// `npm run test:mutation`: alters the code of each area in every small way that StrykerJS knows, runs the area's tests against
// each altered version, and lists what no test has noticed. With names of areas only those; with `--file` only that file.
import { readFile } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { Stryker } from '@stryker-mutator/core'
import { type Area, areas } from './areas.ts'
import { type Mutant, type Reason, type Verdict, judge } from './judge.ts'

const root = join(import.meta.dirname, '..', '..')
const requiredScore = 90

const { values, positionals } = parseArgs({ options: { file: { type: 'string' } }, allowPositionals: true })

/** Runs the tests against all altered versions of one area, one after the other. */
async function mutate(area: Area): Promise<Mutant[]> {
  if (area.needsServers) delete process.env['POSTERN_TEST_SERVERS']
  else process.env['POSTERN_TEST_SERVERS'] = 'none'
  process.env['POSTERN_MUTATION_TESTS'] = JSON.stringify(area.tests)
  const stryker = new Stryker({
    configFile: join(import.meta.dirname, 'stryker.config.json'),
    plugins: [import.meta.resolve('@stryker-mutator/vitest-runner')],
    // Below the folder of tools: nothing that looks at the sources finds the altered ones.
    tempDirName: '.tools/mutation',
    mutate: [...area.mutate],
    reporters: ['dots'],
  })
  const results = await stryker.runMutationTest()
  const sources = new Map<string, string>()
  const mutants: Mutant[] = []
  for (const { fileName, location, mutatorName, replacement, status } of results) {
    const file = relative(root, fileName)
    const source = sources.get(file) ?? (await readFile(join(root, file), 'utf8'))
    sources.set(file, source)
    const original = cut(source, location)
    mutants.push({ file, line: location.start.line, mutator: mutatorName, original, replacement, status })
  }
  return mutants
}

interface Place {
  readonly line: number
  readonly column: number
}

/** The text between two places; lines and columns count from 1. */
function cut(source: string, { start, end }: { readonly start: Place; readonly end: Place }): string {
  const lines = source.split('\n')
  const offset = ({ line, column }: Place): number =>
    lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + column - 1
  return source.slice(offset(start), offset(end))
}

function print(
  { name }: Area,
  { noticed, timedOut, unnoticed, score, survivors, idle }: Verdict,
  minutes: number,
): void {
  for (const { mutant, because } of survivors) {
    const { file, line, original, replacement, status, mutator } = mutant
    process.stdout.write(
      `${file}:${line} ${status} ${mutator}: ${JSON.stringify(original)} -> ${JSON.stringify(replacement)}\n` +
        `  ${because ?? 'NO REASON GIVEN'}\n`,
    )
  }
  for (const { file, original } of idle) process.stdout.write(`a reason for nothing: ${file} ${original}\n`)
  process.stdout.write(
    `mutation: ${name}: ${noticed} of ${noticed + unnoticed} noticed (${timedOut} by never ending), ` +
      `score ${score} %, ` +
      `${survivors.filter(({ because }) => because === undefined).length} survivors without a reason, ` +
      `${minutes.toFixed(1)} minutes\n`,
  )
}

async function readReasons(): Promise<Reason[]> {
  return JSON.parse(await readFile(join(import.meta.dirname, 'survivors.json'), 'utf8'))
}

// It is long, and nobody waits for it.
setPriority(10)
const unknown = positionals.filter((name) => !areas.some((area) => area.name === name))
if (unknown.length > 0) throw new Error(`there is no area ${unknown.join(', ')}`)
const reasons = await readReasons()
for (const area of areas) {
  if (positionals.length > 0 && !positionals.includes(area.name)) continue
  const startedAt = performance.now()
  const mutants = await mutate(values.file === undefined ? area : { ...area, mutate: [values.file] })
  const verdict = judge(mutants, reasons)
  print(area, verdict, (performance.now() - startedAt) / 60_000)
  const isGood = verdict.score >= requiredScore && verdict.survivors.every(({ because }) => because !== undefined)
  if (!isGood || verdict.idle.length > 0) process.exitCode = 1
}
