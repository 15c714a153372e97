import type { Parts } from './parts.ts'
import { round } from './stats.ts'

export interface Moved {
  readonly part: string
  /** Undefined if the file lacks it. */
  readonly before: number | undefined
  readonly now: number | undefined
  /** Relative to the change of the yardstick, so that another machine does not matter. */
  readonly times: number
}

const mostMoved = 0.2
const leastMicroseconds = 0.02

/** A difference of two large figures varies too much. */
function costsOf({ alone, http, forwarded, yardsticks }: Parts): Map<string, readonly [number, number]> {
  const whole = [
    ['HTTP with the client, and all else', http],
    ['a request that it forwards', forwarded],
  ] as const
  return new Map([
    ...alone.map(({ name, cpuMicroseconds }) => [name, [cpuMicroseconds, yardsticks.processor]] as const),
    ...whole.flatMap(([name, cost]) =>
      cost === undefined || yardsticks.http === undefined ? [] : [[name, [cost, yardsticks.http]] as const],
    ),
  ])
}

export function movedParts(before: Parts, now: Parts): Moved[] {
  const [was, is] = [costsOf(before), costsOf(now)]
  return [...new Set([...was.keys(), ...is.keys()])].flatMap((part) => {
    const [[known, knownYardstick] = [], [cost, yardstick] = []] = [was.get(part), is.get(part)]
    if (known === undefined || knownYardstick === undefined || cost === undefined || yardstick === undefined) {
      return [{ part, before: known, now: cost, times: Number.NaN }]
    }
    if (Math.max(known, cost) < leastMicroseconds) return []
    const times = cost / yardstick / (known / knownYardstick)
    const moved = { part, before: known, now: cost, times: round(times) }
    return times > 1 + mostMoved || times < 1 / (1 + mostMoved) ? [moved] : []
  })
}

export function describeMoved(moved: readonly Moved[]): string[] {
  if (moved.length === 0) return ['no part of a request costs more or less than before, by the yardsticks']
  return moved.map(({ part, before, now, times }) => {
    if (before === undefined || now === undefined)
      return `MISSING: ${part} is ${before === undefined ? 'new' : 'gone'}, and compared with nothing`
    return `${times > 1 ? 'DEARER' : 'cheaper'}: ${part}, ${before} µs before, ${now} now: ${times} times, by the yardstick`
  })
}
