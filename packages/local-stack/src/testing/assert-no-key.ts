import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** Every key that was ever made looks like this (packages/api-key): one pattern finds them all. */
const keyPattern = /postern_[0-9A-Za-z]{49}/

/**
 * Throws when a line of a log holds an API key. Given to services that a test runs in its own process: what they log then
 * ends the request or the run that logged it.
 */
export function assertNoKeyInLine(line: string): void {
  if (keyPattern.test(line)) throw new Error('a line of the log holds an API key')
}

/**
 * Reads every log file in a folder and its subfolders and fails when one holds an API key. It runs when a stack or the
 * cluster of a run ends, so the whole suite is a test of what gets into logs. The message names file and line, never the key.
 */
export async function assertNoKeyIn(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    if (!entry.isFile() || !/\.log(\.1)?$/.test(entry.name)) continue
    const path = join(entry.parentPath, entry.name)
    const lines = (await readFile(path, 'utf8')).split('\n')
    const line = lines.findIndex((text) => keyPattern.test(text))
    if (line !== -1) throw new Error(`${path} holds an API key in line ${line + 1}`)
  }
}
