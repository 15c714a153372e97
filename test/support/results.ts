import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** The path of a file of results, in a folder that git ignores. */
export function resultsPath(name: string): string {
  return join(import.meta.dirname, '..', '..', '.results', `${name}.json`)
}

/** Returns the results of the last run; undefined if they do not exist. */
export async function readResults(name: string): Promise<string | undefined> {
  return await readFile(resultsPath(name), 'utf8').catch(() => undefined)
}

/** Stores results under a name: a string unchanged, anything else as JSON. */
export async function writeResults(name: string, results: unknown): Promise<void> {
  const path = resultsPath(name)
  await mkdir(dirname(path), { recursive: true })
  const text = typeof results === 'string' ? results : JSON.stringify(results, undefined, 2)
  await writeFile(path, `${text}\n`)
}
