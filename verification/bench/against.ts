import type { Parts } from './parts.ts'
import { round } from './stats.ts'

/** A part of a request that has become dearer, or cheaper, than its yardstick has. */
export interface Moved {
  readonly part: string
  /** CPU microseconds; undefined where that file lacks it. */
  readonly before: number | undefined
  readonly now: number | undefined
  /** How many times as much as before, less what its yardstick has moved by: another machine counts for nothing. */
  readonly times: number
}

/** More than the figures of one machine differ from run to run. */
const mostMoved = 0.2
/** Smaller parts are within what a clock can tell, in microseconds. */
const leastMicroseconds = 0.02

/** Each part with its cost, and its yardstick's. HTTP with the service is in the whole of a request that is forwarded: a difference of two large figures moves by itself. */
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

/** The parts of a request that have moved by more than a fifth against those before, as measured by the yardsticks. */
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

/** What has moved, a line each. */
export function describeMoved(moved: readonly Moved[]): string[] {
  if (moved.length === 0) return ['no part of a request costs more or less than before, by the yardsticks']
  return moved.map(({ part, before, now, times }) => {
    if (before === undefined || now === undefined)
      return `MISSING: ${part} is ${before === undefined ? 'new' : 'gone'}, and compared with nothing`
    return `${times > 1 ? 'DEARER' : 'cheaper'}: ${part}, ${before} µs before, ${now} now: ${times} times, by the yardstick`
  })
}
