import { constants } from 'node:fs'
import { mkdir, open, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf, tenantPattern } from './blob-store.ts'

/** Makes a directory below `root`, durably. */
export async function makeDurably(directory: string, root: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let path = dirname(directory); path.startsWith(root); path = dirname(path)) await syncDirectory(path)
}

export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** Lists files last written before `olderThan`. Returns an empty list if the directory is missing. */
export async function listOlderThan(directory: string, olderThan: number): Promise<string[]> {
  const old: string[] = []
  for (const name of await namesIn(directory)) {
    try {
      const { mtimeMs } = await stat(join(directory, name))
      if (mtimeMs < olderThan) old.push(name)
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error
    }
  }
  return old
}

/** Lists tenants with entries in a directory and ignores other names. */
export async function tenantsIn(directory: string): Promise<string[]> {
  return (await namesIn(directory)).filter((name) => tenantPattern.test(name))
}

export async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  }
}
