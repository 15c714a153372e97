import { readFileSync } from 'node:fs'

export interface Served {
  /** In milliseconds. */
  readonly fullMs: number
  readonly stolen: number
}

const breakShare = 0.05
const everyMs = 250

export function watchMachine(): () => Served {
  const first = readTimes()
  let last = first
  let lastAt = performance.now()
  let currentMs = 0
  let fullMs = 0
  const look = (): void => {
    const [now, at] = [readTimes(), performance.now()]
    const ticks = now.all - last.all
    if (ticks > 0 && (now.idle - last.idle) / ticks < breakShare) currentMs += at - lastAt
    else currentMs = 0
    fullMs = Math.max(fullMs, currentMs)
    last = now
    lastAt = at
  }
  const timer = setInterval(look, everyMs)
  return () => {
    clearInterval(timer)
    look()
    const ticks = last.all - first.all
    return { fullMs, stolen: ticks === 0 ? 0 : (last.stolen - first.stolen) / ticks }
  }
}

export interface Times {
  readonly all: number
  readonly idle: number
  readonly stolen: number
}

/** Linux only. */
export function readTimes(): Times {
  try {
    const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
    const times = line.split(/\s+/).slice(1, 9).map(Number)
    const [, , , idle = 0, waiting = 0, , , stolen = 0] = times
    return { all: times.reduce((sum, ticks) => sum + ticks, 0), idle: idle + waiting, stolen }
  } catch {
    return { all: 0, idle: 0, stolen: 0 }
  }
}
