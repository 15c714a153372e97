import type { Parts } from './parts.ts'
import { median, round } from './stats.ts'

/** A part of a request that has become dearer, or cheaper, than the others have. */
export interface Moved {
  readonly part: string
  /** CPU microseconds. */
  readonly before: number
  readonly now: number
  /** How many times as much as before, less what all parts together have moved by: another machine counts for nothing. */
  readonly times: number
}

/** More than the figures of one machine differ from run to run. */
const mostMoved = 0.2
/** Smaller parts are within what a clock can tell, in microseconds. */
const leastMicroseconds = 0.3

function costsOf({ alone, http, forward }: Parts): Map<string, number> {
  return new Map([
    ...alone.map(({ name, cpuMicroseconds }) => [name, cpuMicroseconds] as const),
    ...(http === undefined ? [] : [['HTTP with the client, and all else', http] as const]),
    ...(forward === undefined ? [] : [['forward: HTTP with the service', forward] as const]),
  ])
}

/** The parts of a request that have moved by more than a fifth against those before, as measured by the median of all. */
export function movedParts(before: Parts, now: Parts): Moved[] {
  const costs = costsOf(before)
  const pairs = [...costsOf(now)].flatMap(([part, cost]) => {
    const known = costs.get(part)
    return known === undefined || Math.max(known, cost) < leastMicroseconds ? [] : [{ part, before: known, now: cost }]
  })
  const overall = median(pairs.map((pair) => pair.now / pair.before))
  return pairs.flatMap((pair) => {
    const times = pair.now / pair.before / overall
    return times > 1 + mostMoved || times < 1 / (1 + mostMoved) ? [{ ...pair, times: round(times) }] : []
  })
}

/** What has moved, a line each. */
export function describeMoved(moved: readonly Moved[]): string[] {
  if (moved.length === 0) return ['no part of a request costs another share than before']
  return moved.map(({ part, before, now, times }) => {
    return `${times > 1 ? 'DEARER' : 'cheaper'}: ${part}, ${before} µs before, ${now} now: ${times} times, beside the others`
  })
}
