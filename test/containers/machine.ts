import { readFileSync } from 'node:fs'

/** How well the machine served its processes in a while. */
export interface Served {
  /** By how much a timer of this process was late at most, in milliseconds. */
  readonly lateMs: number
  /** The share of processor time that the host took from this machine. */
  readonly stolen: number
}

/** Gateways hold leases of two seconds: on a machine that stands still for a part of that, requests fail for no other reason. */
const lateLimitMs = 300
const stolenLimit = 0.1

export function isStarved({ lateMs, stolen }: Served): boolean {
  return lateMs > lateLimitMs || stolen > stolenLimit
}

const everyMs = 50

/** Watches the machine from now on, until it is asked. */
export function watchMachine(): () => Served {
  const before = readTimes()
  let lateMs = 0
  let expected = performance.now() + everyMs
  const timer = setInterval(() => {
    const now = performance.now()
    lateMs = Math.max(lateMs, now - expected)
    expected = now + everyMs
  }, everyMs)
  return () => {
    clearInterval(timer)
    const after = readTimes()
    const all = after.all - before.all
    return { lateMs, stolen: all === 0 ? 0 : (after.stolen - before.stolen) / all }
  }
}

/** Ticks of all processors since the machine started (proc(5)); elsewhere than on Linux there is no such figure. */
function readTimes(): { all: number; stolen: number } {
  try {
    const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
    const times = line.split(/\s+/).slice(1, 9).map(Number)
    return { all: times.reduce((sum, ticks) => sum + ticks, 0), stolen: times[7] ?? 0 }
  } catch {
    return { all: 0, stolen: 0 }
  }
}
