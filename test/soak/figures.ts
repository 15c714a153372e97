import type { Point } from './judge.ts'

/** A kind of figure: its unit, and how much it may rise in an hour and still count as flat (README of `test`, Soak). */
export interface Kind {
  readonly unit: string
  readonly boundPerHour: number
}

export const kinds = {
  'resident memory': { unit: 'MiB', boundPerHour: 36 },
  'heap after collection': { unit: 'MiB', boundPerHour: 6 },
  'file descriptors': { unit: '', boundPerHour: 12 },
  connections: { unit: '', boundPerHour: 6 },
  'memory of sessions': { unit: 'MiB', boundPerHour: 36 },
  memory: { unit: 'MiB', boundPerHour: 3 },
  keys: { unit: '', boundPerHour: 180 },
  'keys that stay for ever': { unit: '', boundPerHour: 0 },
} as const satisfies Readonly<Record<string, Kind>>

/** One figure of one part of the system, look by look. */
export interface Series {
  readonly part: string
  readonly kind: keyof typeof kinds
  readonly points: Point[]
}
