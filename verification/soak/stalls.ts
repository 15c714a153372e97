import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { z } from 'zod'
import type { Times } from '../containers/machine.ts'

export interface Stall {
  readonly from: number
  readonly to: number
}

export const probeEveryMs = 250
/** A process that sleeps nearly always is woken within milliseconds. If it is so late, the machine was stopped. */
const lateMs = 500
/** No processor was idle for so long, and the host took at least this share. */
const starvedMs = 1000
const stolenShare = 1 / 3
const breakShare = 0.05

/** Returns the stall that ended with a look. Neither kind can be caused by the load. */
export function findStalls(): (look: Times & { readonly at: number }) => Stall | undefined {
  let last: (Times & { readonly at: number }) | undefined
  let starved: { from: number; all: number; stolen: number } | undefined
  return (look) => {
    const before = last
    last = look
    if (before === undefined) return undefined
    if (look.at - before.at - probeEveryMs >= lateMs) {
      starved = undefined
      return { from: before.at, to: look.at }
    }
    const [all, stolen] = [look.all - before.all, look.stolen - before.stolen]
    if (all > 0 && (look.idle - before.idle) / all < breakShare) {
      starved ??= { from: before.at, all: 0, stolen: 0 }
      starved.all += all
      starved.stolen += stolen
      return undefined
    }
    const ended = starved
    starved = undefined
    if (ended === undefined || before.at - ended.from < starvedMs || ended.stolen / ended.all < stolenShare)
      return undefined
    return { from: ended.from, to: before.at }
  }
}

const stallSchema = z.object({ from: z.number(), to: z.number() })

export interface StallWatch {
  readonly pid: number
  readonly stalls: readonly Stall[]
  next(): Promise<Stall>
  stop(): Promise<void>
}

/** Returns the clock of all processes of the machine, in milliseconds. */
export function machineClock(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

export async function watchStalls(): Promise<StallWatch> {
  const probe = join(import.meta.dirname, 'stall-probe.ts')
  // The probe ends with its standard input, and so with this process.
  const child = spawn(process.execPath, ['--conditions=@postern/source', probe], { stdio: ['pipe', 'pipe', 'inherit'] })
  const aheadMs = machineClock() - performance.now()
  const stalls: Stall[] = []
  let waiting: PromiseWithResolvers<Stall> | undefined
  const lines = createInterface({ input: child.stdout })
  const begun = once(lines, 'line')
  await begun
  lines.on('line', (line) => {
    const { from, to } = stallSchema.parse(JSON.parse(line))
    const stall = { from: from - aheadMs, to: to - aheadMs }
    stalls.push(stall)
    waiting?.resolve(stall)
    waiting = undefined
  })
  return {
    pid: child.pid ?? 0,
    stalls,
    next: async () => await (waiting ??= Promise.withResolvers()).promise,
    stop: async () => {
      const ended = once(child, 'close')
      child.stdin.end()
      await ended
    },
  }
}

/** On the monotonic clock, in milliseconds. */
export interface Failure {
  readonly text: string
  readonly startedAt: number
  readonly endedAt: number
  readonly status?: number | undefined
  readonly code?: string | undefined
}

/** After a stall, a gateway may be without a lease for so long. */
const afterMs = 3000
const excusedCodes: ReadonlySet<string | undefined> = new Set(['auth_unavailable', 'service_unavailable'])
/** Beyond this share of requests, the machine could show nothing. */
const mostExcused = 0.005

/** Excuses a 503 of a stall. Everything else is a fault. */
export function excuseStalls(
  failures: readonly Failure[],
  stalls: readonly Stall[],
  requests: number,
): { readonly faults: string[]; readonly ofStalls: string[] } {
  const isOfStall = ({ status, code, startedAt, endedAt }: Failure): boolean =>
    status === 503 &&
    excusedCodes.has(code) &&
    stalls.some(({ from, to }) => endedAt >= from && startedAt <= to + afterMs)
  const faults = failures.filter((failure) => !isOfStall(failure)).map(({ text }) => text)
  const ofStalls = failures.filter(isOfStall).map(({ text }) => text)
  if (ofStalls.length > mostExcused * requests) {
    faults.push(
      `${ofStalls.length} answers of 503 while the host gave no processor, more than ${mostExcused * 100} % of all requests`,
    )
  }
  return { faults, ofStalls }
}
