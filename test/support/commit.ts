import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '..', '..')

async function git(...args: string[]): Promise<string> {
  return (await promisify(execFile)('git', args, { cwd: root })).stdout.trim()
}

/** Returns the abbreviated commit, with `+` if files other than results differ from it. */
export async function readCommit(): Promise<string> {
  try {
    const changed = await git('status', '--porcelain', '--untracked-files=no', '--', '.', ':!bench')
    return `${await git('rev-parse', '--short', 'HEAD')}${changed === '' ? '' : '+'}`
  } catch {
    return 'unknown'
  }
}
