import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { z } from 'zod'
import type { KeySet } from './key-set.ts'
import { findProgram, loadCore, pinned } from './processes.ts'

/** What a load generator is to do. */
export interface LoadJob {
  readonly url: string
  readonly connections: number
  readonly seconds: number
  /** Requests a second, sent when they are due whatever is still unanswered; without it each connection sends at once. */
  readonly rate?: number
  /** The keys to use in turn; without it the request has no Authorization header. */
  readonly keys?: KeySet
  /** Uses the keys in their order from the first; otherwise far from each other, from any of them. */
  readonly inOrder?: boolean
  /** So many requests one after the other use the same key, default 1: on as many connections they are under way at once. */
  readonly together?: number
  /** One of `oneIn` requests has one of the `count` keys that follow these, `from` that number on, none twice before all were used. */
  readonly tail?: { readonly oneIn: number; readonly count: number; readonly from: number }
  /** So long the load is made before anything counts: until the generator itself is compiled. For full load alone. */
  readonly settleSeconds?: number
  /** Ends after this many requests, if the time is not over before. */
  readonly requests?: number
  /** Part of the requests that may fail, default none: for what is sent before anything is measured. */
  readonly mayFail?: number
}

export const loadResultSchema = z.object({
  requests: z.number(),
  /** With those that did not count, and those that were not answered before the end. */
  sent: z.number(),
  seconds: z.number(),
  /** Answers other than 200, and connections that broke. */
  failures: z.number(),
  p50: z.number(),
  p99: z.number(),
  /** Answers in each second since the start, the last one not whole; of wrk nothing is known of them. */
  perSecond: z.array(z.number()),
})

/** `p50` and `p99` are milliseconds. */
export type LoadResult = z.infer<typeof loadResultSchema>

const wrk = findProgram('wrk')

/** Which generator makes the load of the comparison. */
export const generatorName = wrk === undefined ? 'built-in' : 'wrk'

/** Sends requests as fast as they are answered: with wrk where there is one, else with the built-in generator. */
export async function runLoad(job: LoadJob): Promise<LoadResult> {
  return wrk === undefined || job.keys?.count !== 1 ? await runOwn(job) : await runWrk(wrk, job, job.keys.first)
}

const own = join(import.meta.dirname, 'generator.ts')

/** A generator that makes load when it is told to, over connections that stay open. */
export interface Turns {
  /** Makes load for `ms` milliseconds, waits for what is under way, and tells what there was since the turn began. */
  take(ms: number): Promise<LoadResult>
  stop(): Promise<void>
}

/** Starts the built-in generator, which waits for its turns: one that has just been started keeps no gateway busy. */
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

/**
 * Runs the built-in generator as a process of its own; the only one that can pace requests, use many keys and settle before
 * it counts: then `begun` is called.
 */
export async function runOwn(job: LoadJob, begun: () => void = () => undefined): Promise<LoadResult> {
  const child = startOwn()
  // On its standard input, since the job holds keys and `ps` shows arguments.
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

/** A figure over refused requests says nothing: there may be none. */
function refuseFailures(result: LoadResult, { url, mayFail = 0 }: Pick<LoadJob, 'url' | 'mayFail'>): LoadResult {
  if (result.failures > mayFail * result.requests || !(result.requests > 0)) {
    throw new Error(`${result.failures} of ${result.requests} requests to ${url} failed`)
  }
  return result
}
