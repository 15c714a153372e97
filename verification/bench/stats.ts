import { loadavg } from 'node:os'

export function median(values: readonly number[]): number {
  return percentile(values, 0.5)
}

/** `share` is 0 to 1; NaN without values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other)
  const at = (sorted.length - 1) * share
  const low = sorted[Math.floor(at)] ?? Number.NaN
  const high = sorted[Math.ceil(at)] ?? Number.NaN
  return low + (high - low) * (at - Math.floor(at))
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

export function middleMean(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other)
  const quarter = Math.floor(sorted.length / 4)
  return mean(sorted.slice(quarter, sorted.length - quarter))
}

export function round(value: number, digits = 2): number {
  return Number(value.toFixed(digits))
}

export function loadNow(): number {
  return round(loadavg()[0] ?? 0)
}
