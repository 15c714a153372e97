import { execFile, spawn } from 'node:child_process'
import { readFile, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Change, changeSchema } from '@postern/contracts'
import { z } from 'zod'
import { repositoryRoot } from '../src/paths.ts'
import { loopback } from '../src/ports.ts'
import { isAlive } from '../src/processes.ts'
import { demoSchema } from '../src/seed.ts'
import { programOf } from '../src/services.ts'
import { patience } from '../src/testing/patience.ts'

export interface Run {
  readonly pid: number
  readonly output: () => string
  readonly ended: Promise<number | null>
  readonly kill: (signal: NodeJS.Signals) => void
}

/** Runs `npm start` with these settings and no others. */
export function start(env: Record<string, string>): Run {
  const child = spawn(process.execPath, [programOf('start')], {
    env: {
      PATH: process.env['PATH'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      ...patience,
      // Ends when this process ends, like `npm start`.
      POSTERN_PARENT_FD: '3',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  })
  child.stdio[3]?.on('error', () => undefined)
  let output = ''
  child.stdout?.on('data', (chunk) => (output += String(chunk)))
  child.stderr?.on('data', (chunk) => (output += String(chunk)))
  const { promise, resolve } = Promise.withResolvers<number | null>()
  child.once('close', (code) => resolve(code))
  return { pid: child.pid ?? 0, output: () => output, ended: promise, kill: (signal) => void child.kill(signal) }
}

export async function runInClone(command: string, env: Record<string, string>): Promise<string> {
  const options = { cwd: repositoryRoot, env: { ...process.env, ...env } }
  return (await promisify(execFile)('/bin/sh', ['-c', `set -e\n${command}`], options)).stdout
}

/** Waits for the line that says that everything is up. */
export async function untilReady(run: Run): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const look = setInterval(() => /^postern ready /m.test(run.output()) && resolve(), 20)
  const ended = run.ended.then((code) => {
    throw new Error(`ended with ${code}: ${run.output()}`)
  })
  try {
    await Promise.race([promise, ended])
  } finally {
    clearInterval(look)
  }
}

/** Returns the ids of processes whose command or open files name the home. */
export async function processesOf(home: string): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid) || pid === process.pid) continue
    const output = await readlink(`/proc/${pid}/fd/1`).catch(() => '')
    if (output.startsWith(join(home, 'logs'))) found.push(pid)
  }
  return found
}

export async function untilAllGone(pids: readonly number[]): Promise<void> {
  while (pids.some(isAlive)) await delay(50)
}

export interface Reader {
  readonly get: (target: string) => Promise<{ status: number; json: Record<string, unknown> }>
  readonly list: (target: string) => Promise<Record<string, unknown>[]>
  /** `filter`: such as `&actor=demo`. */
  readonly count: (kind: string, filter?: string) => Promise<number>
  readonly text: (target: string, accept: string) => Promise<string>
  /** The whole change feed. */
  readonly changes: () => AsyncGenerator<Change>
}

export function readerOf(port: number, key: string | undefined): Reader {
  const call = async (target: string, headers: Record<string, string> = {}): Promise<Response> => {
    for (;;) {
      const answer = await fetch(`http://${loopback}:${port}/api/v1/${target}`, {
        headers: { authorization: `ApiKey ${key}`, ...headers },
      })
      if (answer.status !== 503 || !(await answer.clone().text()).includes('auth_unavailable')) return answer
    }
  }
  return {
    get: async (target) => {
      const answer = await call(target)
      return { status: answer.status, json: JSON.parse(await answer.text()) }
    },
    list: async (target) => JSON.parse(await (await call(target)).text()),
    count: async (kind, filter = '') =>
      Number((await call(`${kind}?limit=1&count=true${filter}`)).headers.get('x-total-count')),
    text: async (target, accept) => {
      const answer = await call(target, { accept })
      const text = await answer.text()
      if (answer.status !== 200) throw new Error(`${target} was answered ${answer.status} ${text}`)
      return text
    },
    changes: async function* follow() {
      for (let target: string | undefined = 'changes?limit=1000'; target !== undefined;) {
        const answer: Response = await call(target)
        yield* z.array(changeSchema).parse(await answer.json())
        target = /^<\/api\/v1\/([^>]+)>; rel="next"$/.exec(answer.headers.get('link') ?? '')?.[1]
      }
    },
  }
}

/** Counts resources by kind. Of the log, only entries of the demo count, because one more comes at midnight (UTC). */
export async function countsOf({ count }: Reader): Promise<number[]> {
  const kinds = [
    'findings',
    'recommendations',
    'action-plans',
    'remediation-log',
    'entities',
    'people',
    'test-procedures',
  ]
  return await Promise.all(kinds.map((kind) => count(kind, kind === 'remediation-log' ? '&actor=demo' : '')))
}

export const readDemo = async (home: string) =>
  demoSchema.parse(JSON.parse(await readFile(join(home, 'demo.json'), 'utf8')))

export async function readOfProcess(pid: number, name: 'cmdline' | 'environ'): Promise<string> {
  try {
    return await readFile(`/proc/${pid}/${name}`, 'utf8')
  } catch (error) {
    if (error instanceof Error && /ENOENT|ESRCH/.test(error.message)) return ''
    throw error
  }
}
