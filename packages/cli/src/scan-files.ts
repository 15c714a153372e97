import { createReadStream } from 'node:fs'
import { lstat, opendir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { findKeys } from '@postern/api-key'
import { StreamScanner } from './scan-stream.ts'

/** A key and where it is; `line` is null if it is in the name of a file. */
export interface Leak {
  readonly path: string
  readonly line: number | null
  readonly masked: string
  /** The object in the history of a Git repository. */
  readonly object: string | null
}

export interface ScanReport {
  onLeak(leak: Leak): void
  /** Something could not be read, so the scan is not complete. */
  onUnread(path: string, reason: string): void
  /** A folder with the history of a Git repository. */
  onRepository(folder: string): void
}

/**
 * Scans a file, or a folder with everything below it. Follows no links except `path` itself, and skips pipes and devices.
 */
export async function scanPath(path: string, report: ScanReport): Promise<void> {
  try {
    await scan(await realpath(path), path, report)
  } catch (error) {
    report.onUnread(path, reasonOf(error))
  }
}

async function scan(file: string, shown: string, report: ScanReport): Promise<void> {
  const status = await lstat(file)
  if (status.isDirectory()) await scanFolder(file, shown, report)
  else if (status.isFile()) await scanFile(file, shown, report)
}

async function scanFolder(folder: string, shown: string, report: ScanReport): Promise<void> {
  const names: string[] = []
  for await (const { name } of await opendir(folder)) names.push(name)
  const isBare = ['HEAD', 'objects', 'refs'].every((name) => names.includes(name))
  if (names.includes('.git') || isBare) report.onRepository(folder)
  for (const name of names.toSorted()) {
    // Compressed; the scan of the history reads them.
    if (isBare && name === 'objects') continue
    const path = join(shown, name)
    for (const { masked } of findKeys(name)) report.onLeak({ path, line: null, masked, object: null })
    await scan(join(folder, name), path, report).catch((error: unknown) => report.onUnread(path, reasonOf(error)))
  }
}

async function scanFile(file: string, path: string, report: ScanReport): Promise<void> {
  const scanner = new StreamScanner()
  for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 })) {
    for (const key of scanner.push(Buffer.from(chunk))) report.onLeak({ path, ...key, object: null })
  }
}

export function reasonOf(error: unknown): string {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
  return typeof code === 'string' ? code : 'it cannot be read'
}
