import { median } from '../bench/stats.ts'

export interface Point {
  readonly at: number
  readonly value: number
}

export interface Judged {
  readonly early: number
  readonly late: number
  readonly risePerHour: number
  readonly spread: number
  /** `unclear`: the spread could hide a rise as large as the limit. `unread`: values are missing. */
  readonly verdict: 'flat' | 'rises' | 'unclear' | 'unread'
}

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const deviationsOfMedian = 1.4826
const leastValues = 8
/** Two standard errors. */
const errorsOfDoubt = 2

/**
 * The rise is the larger of the median of all pairwise slopes (Theil–Sen), which ignores peaks, and the difference
 * between the last and first quarter.
 */
export function judge(points: readonly Point[], boundPerHour: number): Judged {
  const quarter = Math.ceil(points.length / 4)
  const [first, last] = [points.slice(0, quarter), points.slice(-quarter)]
  const [early, late] = [middle(first, 'value'), middle(last, 'value')]
  const slope = slopeOf(points)
  const step = (late - early) / (middle(last, 'at') - middle(first, 'at'))
  const risePerHour = Math.max(slope, step) * hourMs
  const spread = spreadAround(points, slope)
  const doubt = errorsOfDoubt * standardError(points, spread) * hourMs
  const verdict = areRead(points) ? verdictOf(risePerHour, doubt, boundPerHour) : 'unread'
  return { early, late, risePerHour, spread, verdict }
}

function areRead(points: readonly Point[]): boolean {
  return points.length >= leastValues && points.every(({ value }) => Number.isFinite(value))
}

/** NaN never compares as flat. */
function verdictOf(risePerHour: number, doubt: number, boundPerHour: number): Judged['verdict'] {
  if (risePerHour > boundPerHour) return 'rises'
  return risePerHour <= boundPerHour && doubt <= boundPerHour ? 'flat' : 'unclear'
}

export function leastOfEachMinute(points: readonly Point[]): Point[] {
  const minutes = [...Map.groupBy(points, ({ at }) => Math.floor(at / minuteMs))]
  const looks = median(minutes.map(([, of]) => of.length))
  return minutes
    .filter(([, of]) => of.length > looks / 2)
    .map(([minute, of]) => ({
      at: (minute + 0.5) * minuteMs,
      value: Math.min(...of.map(({ value }) => value)),
    }))
}

function slopeOf(points: readonly Point[]): number {
  const slopes = points.flatMap((one, index) =>
    points.slice(index + 1).map((other) => (other.value - one.value) / (other.at - one.at)),
  )
  return median(slopes)
}

function spreadAround(points: readonly Point[], slope: number): number {
  const above = points.map(({ at, value }) => value - slope * at)
  const line = median(above)
  return deviationsOfMedian * median(above.map((distance) => Math.abs(distance - line)))
}

function standardError(points: readonly Point[], spread: number): number {
  const mean = points.reduce((sum, { at }) => sum + at, 0) / points.length
  return spread / Math.sqrt(points.reduce((sum, { at }) => sum + (at - mean) ** 2, 0))
}

function middle(points: readonly Point[], name: keyof Point): number {
  return median(points.map((point) => point[name]))
}
