import { createHash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { type Area, areas } from './areas.ts'
import { type Mutant, type Reason, reasonsFor } from './judge.ts'

const survivorSchema = z.strictObject({
  line: z.int().positive(),
  mutator: z.string(),
  original: z.string(),
  replacement: z.string(),
  status: z.string(),
})

const resultSchema = z.strictObject({
  /** In UTC. */
  date: z.iso.date(),
  /** The first digits of the SHA-256. */
  source: z.string().regex(/^[0-9a-f]{12}$/),
  tests: z
    .string()
    .regex(/^[0-9a-f]{12}$/)
    .optional(),
  minutes: z.number().nonnegative(),
  noticed: z.int().nonnegative(),
  timedOut: z.int().nonnegative(),
  survivors: z.array(survivorSchema),
})

export type Result = z.infer<typeof resultSchema>

export const resultsSchema = z.record(z.string(), z.record(z.string(), resultSchema))
export type Results = z.infer<typeof resultsSchema>

export function filesOf({ mutate }: Pick<Area, 'mutate'>, root: string): string[] {
  return find(mutate, root)
}

export function testsOf({ tests, testsOf: few }: Pick<Area, 'tests' | 'testsOf'>, file: string): readonly string[] {
  return few?.[file] ?? tests
}

function find(globs: readonly string[], root: string): string[] {
  const found = globs.map((glob) => {
    const isExcluded = glob.startsWith('!')
    const paths = globSync(isExcluded ? glob.slice(1) : glob, { cwd: root })
    // A misspelt name would be skipped silently.
    if (paths.length === 0) throw new Error(`no file matches ${glob}`)
    return { isExcluded, paths }
  })
  const excluded = new Set(found.flatMap(({ isExcluded, paths }) => (isExcluded ? paths : [])))
  const included = new Set(found.flatMap(({ isExcluded, paths }) => (isExcluded ? [] : paths)))
  return [...included].filter((path) => !excluded.has(path)).toSorted()
}

export function sourceOf(root: string, ...paths: readonly string[]): string {
  const digest = createHash('sha256')
  for (const path of paths) digest.update(readFileSync(join(root, path)))
  return digest.digest('hex').slice(0, 12)
}

/** Hashes the tests of a file without shared helpers. */
export function stateOfTests(area: Pick<Area, 'tests' | 'testsOf'>, file: string, root: string): string {
  return sourceOf(root, ...find(testsOf(area, file), root))
}

export function resultOf(
  mutants: readonly Mutant[],
  about: Pick<Result, 'date' | 'source' | 'tests' | 'minutes'>,
): Result {
  const survivors = mutants.filter(({ status }) => status === 'Survived' || status === 'NoCoverage')
  return {
    ...about,
    noticed: mutants.filter(({ status }) => status === 'Killed' || status === 'Timeout').length,
    timedOut: mutants.filter(({ status }) => status === 'Timeout').length,
    survivors: survivors.map(({ file: _file, ...survivor }) => survivor),
  }
}

/** In percent. */
export const requiredScore = 90

export function isOld(
  area: Pick<Area, 'tests' | 'testsOf'>,
  file: string,
  kept: Result | undefined,
  root: string,
): boolean {
  if (kept?.source !== sourceOf(root, file)) return true
  return kept.tests !== undefined && kept.tests !== stateOfTests(area, file, root)
}

export function notRun(area: Area, kept: Readonly<Record<string, Result>>, root: string): string[] {
  return filesOf(area, root).filter((file) => isOld(area, file, kept[file], root))
}

export interface Sum {
  readonly noticed: number
  readonly timedOut: number
  readonly unnoticed: number
  /** In percent, rounded down to one decimal. */
  readonly score: number
  readonly unexplained: number
}

export function sumOf(kept: Readonly<Record<string, Result>>, reasons: readonly Reason[]): Sum {
  const results = Object.values(kept)
  const noticed = results.reduce((sum, result) => sum + result.noticed, 0)
  const survivors = Object.entries(kept).flatMap(([file, result]) => result.survivors.map((one) => ({ ...one, file })))
  const total = noticed + survivors.length
  return {
    noticed,
    timedOut: results.reduce((sum, { timedOut }) => sum + timedOut, 0),
    unnoticed: survivors.length,
    score: total === 0 ? 100 : Math.floor((noticed / total) * 1000) / 10,
    unexplained: reasonsFor(survivors, reasons).filter((reason) => reason === undefined).length,
  }
}

export function tableOf(results: Results, reasons: readonly Reason[]): string[] {
  const rows = areas.map(({ name }) => {
    const kept = results[name] ?? {}
    if (Object.keys(kept).length === 0) return `| ${name} | 0 | not run | | | |`
    const { noticed, timedOut, unnoticed, score, unexplained } = sumOf(kept, reasons)
    const dates = Object.values(kept)
      .map(({ date }) => date)
      .toSorted()
    const cells = [
      name,
      Object.keys(kept).length,
      `${noticed} of ${noticed + unnoticed}, ${timedOut} by timeout`,
      `${score} %`,
      unexplained,
      [...new Set([dates.at(0), dates.at(-1)])].join(' to '),
    ]
    return `| ${cells.join(' | ')} |`
  })
  return [
    '| area | files | noticed | score | survivors without a reason | date |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows,
  ]
}
