import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { type Leak, type ScanReport, reasonOf } from './scan-files.ts'
import { StreamScanner } from './scan-stream.ts'
import type { Environment } from './settings.ts'

/** Only these: a Git hook sets variables that name another repository. Missing objects are not fetched. */
const safeSettings = { GIT_NO_LAZY_FETCH: '1', GIT_OPTIONAL_LOCKS: '0', GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C' }

const maxWithPath = 10_000

type Git = ChildProcessByStdio<null, Readable, null>

function startGit(folder: string, env: Environment, args: readonly string[]): Git {
  return spawn('git', ['-C', folder, '-c', 'core.fsmonitor=false', ...args], {
    // A damaged repository must not be taken for a part of the one around it.
    env: { PATH: env['PATH'], HOME: env['HOME'], GIT_CEILING_DIRECTORIES: dirname(folder), ...safeSettings },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
}

/** Scans all objects of a repository: every version of every file, deleted ones too, and the messages of commits. */
export async function scanHistory(folder: string, env: Environment, report: ScanReport): Promise<void> {
  const leaks: Omit<Leak, 'path'>[] = []
  try {
    const git = startGit(folder, env, ['cat-file', '--batch-all-objects', '--batch', '--buffer', '--unordered'])
    const ended = endOf(git)
    for await (const leak of keysInObjects(git.stdout)) {
      // A small object can contain millions. Only the first ones need a path.
      if (leaks.length < maxWithPath) leaks.push(leak)
      else report.onLeak({ ...leak, path: folder })
    }
    await ended
    const paths = leaks.length === 0 ? new Map<string, string>() : await pathsOf(folder, env, leaks)
    for (const leak of leaks) report.onLeak({ ...leak, path: join(folder, paths.get(leak.object ?? '') ?? '') })
  } catch (error) {
    for (const leak of leaks) report.onLeak({ ...leak, path: folder })
    report.onUnread(`the Git history of ${folder}`, error instanceof GitError ? error.message : reasonOf(error))
  }
}

class GitError extends Error {}

/** Resolves when the program has ended well. */
async function endOf(git: Git): Promise<void> {
  const ended = once(git, 'close')
  // Awaited later; the failure must not be unhandled until then.
  ended.catch(() => undefined)
  const [code] = await ended.catch((error: unknown) => {
    throw new GitError(reasonOf(error) === 'ENOENT' ? 'git is not installed' : 'git cannot be started')
  })
  if (code !== 0) throw new GitError('git cannot read it')
}

/** Parses `<object> <type> <size>`, a line feed, the content and a line feed. */
async function* keysInObjects(output: Readable): AsyncGenerator<{ object: string; masked: string; line: number }> {
  let head = Buffer.alloc(0)
  let object = ''
  let scanner = new StreamScanner()
  /** Bytes of the object and its line feed that have not arrived; 0 before a head. */
  let left = 0
  for await (const part of output) {
    let chunk = Buffer.from(part)
    while (chunk.length > 0) {
      if (left === 0) {
        const end = chunk.indexOf('\n')
        head = Buffer.concat([head, end === -1 ? chunk : chunk.subarray(0, end)])
        if (end === -1) break
        const [, name = '', size = ''] = /^([0-9a-f]{40,64}) [a-z]+ (\d+)$/.exec(head.toString('latin1')) ?? []
        // An object that the repository lacks has no content.
        if (name !== '') [object, left, scanner] = [name, Number(size) + 1, new StreamScanner()]
        head = Buffer.alloc(0)
        chunk = chunk.subarray(end + 1)
        continue
      }
      const content = chunk.subarray(0, left)
      for (const key of scanner.push(content)) yield { object, ...key }
      left -= content.length
      chunk = chunk.subarray(content.length)
    }
  }
}

/** Returns a path of each object, which is unknown for commits and objects that no commit uses. */
async function pathsOf(
  folder: string,
  env: Environment,
  leaks: readonly Omit<Leak, 'path'>[],
): Promise<Map<string, string>> {
  const wanted = new Set(leaks.map(({ object }) => object))
  const paths = new Map<string, string>()
  const git = startGit(folder, env, ['rev-list', '--all', '--reflog', '--objects', '--missing=allow-any'])
  const ended = endOf(git)
  for await (const line of createInterface({ input: git.stdout })) {
    const [object = ''] = line.split(' ', 1)
    if (wanted.has(object) && line.length > object.length + 1) paths.set(object, line.slice(object.length + 1))
  }
  await ended
  return paths
}
