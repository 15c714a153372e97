import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

const root = join(import.meta.dirname, '..', '..')

const reportSchema = z.looseObject({
  testResults: z.array(
    z.looseObject({
      name: z.string(),
      startTime: z.number(),
      assertionResults: z.array(z.looseObject({ status: z.string() })),
    }),
  ),
})

/** Returns results by path, such as `12 passed on 2026-11-28`. */
export function readResults(folder = join(root, '.test-reports')): ReadonlyMap<string, string> {
  const results = new Map<string, string>()
  for (const path of globSync('*.json', { cwd: folder })) {
    const report = reportSchema.safeParse(parseJson(readFileSync(join(folder, path), 'utf8')))
    for (const { name, startTime, assertionResults } of report.data?.testResults ?? []) {
      const count = (status: string): number => assertionResults.filter((test) => test.status === status).length
      const failed = count('failed')
      const day = new Date(startTime).toISOString().slice(0, 10)
      const file = name.slice(name.indexOf(root) + root.length + 1)
      results.set(file, `${count('passed')} passed${failed === 0 ? '' : `, ${failed} failed`} on ${day}`)
    }
  }
  return results
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
