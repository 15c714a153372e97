import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { z } from 'zod'
import type { KeySet } from './key-set.ts'
import { findProgram, loadCore, pinned } from './processes.ts'

export interface LoadJob {
  readonly url: string
  readonly connections: number
  readonly seconds: number
  readonly rate?: number
  readonly keys?: KeySet
  readonly inOrder?: boolean
  readonly together?: number
  /** `count` following keys are each used once before any repeats. */
  readonly tail?: { readonly oneIn: number; readonly count: number; readonly from: number }
  /** In seconds; only for full load. */
  readonly settleSeconds?: number
  readonly requests?: number
  /** Share of requests, default none. */
  readonly mayFail?: number
}

export const loadResultSchema = z.object({
  requests: z.number(),
  sent: z.number(),
  seconds: z.number(),
  failures: z.number(),
  p50: z.number(),
  p99: z.number(),
  /** The last second is incomplete. Missing for wrk. */
  perSecond: z.array(z.number()),
})

/** `p50` and `p99` are milliseconds. */
export type LoadResult = z.infer<typeof loadResultSchema>

const wrk = findProgram('wrk')

export const generatorName = wrk === undefined ? 'built-in' : 'wrk'

export async function runLoad(job: LoadJob): Promise<LoadResult> {
  return wrk === undefined || job.keys?.count !== 1 ? await runOwn(job) : await runWrk(wrk, job, job.keys.first)
}

const own = join(import.meta.dirname, 'generator.ts')

export interface Turns {
  take(ms: number): Promise<LoadResult>
  stop(): Promise<void>
}

export function openTurns(job: Omit<LoadJob, 'seconds'>): Turns {
  const child = startOwn()
  child.stdin.write(`${JSON.stringify({ ...job, seconds: 0, inTurns: true })}\n`)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ended = endOf(child)
  ended.catch(() => undefined)
  return {
    take: async (ms) => {
      child.stdin.write(`${ms}\n`)
      const { value } = await lines.next()
      if (value === undefined) throw new Error('the load generator has ended')
      return refuseFailures(loadResultSchema.parse(JSON.parse(value)), job)
    },
    stop: async () => {
      child.stdin.end()
      await ended
    },
  }
}

function startOwn() {
  const [command, args] = pinned(process.execPath, ['--conditions=@postern/source', own], loadCore)
  return spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
}

async function endOf(child: ChildProcess): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  child.once('error', reject)
  child.once('close', resolve)
  const code = await promise
  if (code !== 0) throw new Error(`the load generator ended with exit code ${code}`)
}

/** Only the built-in generator can pace requests, use many keys and warm up; then it calls `begun`. */
export async function runOwn(job: LoadJob, begun: () => void = () => undefined): Promise<LoadResult> {
  const child = startOwn()
  // The job contains keys, and `ps` shows arguments.
  child.stdin.end(JSON.stringify(job))
  const lines = createInterface({ input: child.stdout })
  let result = ''
  lines.on('line', (line) => {
    if (line === 'begun') begun()
    else result = line
  })
  await endOf(child)
  return refuseFailures(loadResultSchema.parse(JSON.parse(result)), job)
}

async function runWrk(program: string, job: LoadJob, key: string): Promise<LoadResult> {
  const { url, connections, seconds } = job
  const [command, args] = pinned(
    program,
    [
      '-t1',
      `-c${connections}`,
      `-d${seconds}s`,
      '--timeout',
      '20s',
      '--latency',
      '-H',
      `Authorization: ApiKey ${key}`,
      url,
    ],
    loadCore,
  )
  const { stdout } = await promisify(execFile)(command, [...args])
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1])
  const rate = Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1])
  const failures = [...stdout.matchAll(/(?:Non-2xx or 3xx responses:|(?:connect|read|write|timeout)) (\d+)/g)]
  return refuseFailures(
    {
      requests,
      sent: requests,
      seconds: requests / rate,
      failures: failures.reduce((sum, [, count]) => sum + Number(count), 0),
      p50: milliseconds(stdout, '50%'),
      p99: milliseconds(stdout, '99%'),
      perSecond: [],
    },
    job,
  )
}

function milliseconds(output: string, line: string): number {
  const [, value, unit] = new RegExp(String.raw`${line}\s+([\d.]+)(us|ms|s)`).exec(output) ?? []
  return Number(value) * (unit === 'us' ? 0.001 : unit === 's' ? 1000 : 1)
}

function refuseFailures(result: LoadResult, { url, mayFail = 0 }: Pick<LoadJob, 'url' | 'mayFail'>): LoadResult {
  if (result.failures > mayFail * result.requests || !(result.requests > 0)) {
    throw new Error(`${result.failures} of ${result.requests} requests to ${url} failed`)
  }
  return result
}
