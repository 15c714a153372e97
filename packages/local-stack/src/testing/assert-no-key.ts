import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** The pattern of every key (packages/api-key). */
const keyPattern = /postern_[0-9A-Za-z]{49}/

/** Throws if a log line contains an API key. Services in a test's process use it for each line. */
export function assertNoKeyInLine(line: string): void {
  if (keyPattern.test(line)) throw new Error('a line of the log contains an API key')
}

/**
 * Throws if a log file below the folder contains an API key. Runs at the end of every stack and cluster. The message names
 * file and line.
 */
export async function assertNoKeyIn(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    if (!entry.isFile() || !/\.log(\.1)?$/.test(entry.name)) continue
    const path = join(entry.parentPath, entry.name)
    const lines = (await readFile(path, 'utf8')).split('\n')
    const line = lines.findIndex((text) => keyPattern.test(text))
    if (line !== -1) throw new Error(`${path} contains an API key in line ${line + 1}`)
  }
}
