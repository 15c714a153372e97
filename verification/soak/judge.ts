import { median } from '../bench/stats.ts'

/** A figure at a moment, in milliseconds since the load began. */
export interface Point {
  readonly at: number
  readonly value: number
}

export interface Judged {
  /** Medians of the first and of the last quarter of what was judged. */
  readonly early: number
  readonly late: number
  readonly risePerHour: number
  /** How far from the line a value usually lies (the median of the distances, made comparable with a standard deviation). */
  readonly spread: number
  /**
   * `unclear`: the values jump so much that a rise as large as the bound could hide among them. `unread`: there are too few
   * values, or one of them could not be read.
   */
  readonly verdict: 'flat' | 'rises' | 'unclear' | 'unread'
}

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** Of normally distributed values: a standard deviation is so many medians of their distances from the middle. */
const deviationsOfMedian = 1.4826
/** Fewer values are no series. The shortest that is judged has one a minute, for ten minutes. */
const leastValues = 8
/** A slope is known to about two standard errors. */
const errorsOfDoubt = 2

/**
 * Judges whether a figure stays flat: whether it rises by no more than `boundPerHour`.
 *
 * The rise is the steeper of two. The median of the slopes between any two points (Theil and Sen) does not follow single
 * peaks, such as garbage that was about to be collected. What the last quarter lies above the first finds what began late
 * and what went up in one step. A figure that falls is flat.
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

/** Flat is what is known to be: no comparison with what is no number says so. */
function verdictOf(risePerHour: number, doubt: number, boundPerHour: number): Judged['verdict'] {
  if (risePerHour > boundPerHour) return 'rises'
  return risePerHour <= boundPerHour && doubt <= boundPerHour ? 'flat' : 'unclear'
}

/** The least value of each minute, in its middle. A minute with fewer looks than the others says nothing of its least. */
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

/** Of the slope of a line through points that lie so far from it. */
function standardError(points: readonly Point[], spread: number): number {
  const mean = points.reduce((sum, { at }) => sum + at, 0) / points.length
  return spread / Math.sqrt(points.reduce((sum, { at }) => sum + (at - mean) ** 2, 0))
}

function middle(points: readonly Point[], name: keyof Point): number {
  return median(points.map((point) => point[name]))
}
