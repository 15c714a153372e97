import { type Point, leastOfEachMinute } from './judge.ts'

export interface Kind {
  readonly unit: string
  readonly boundPerHour: number
  readonly isLeastOfMinute?: true
}

export const kinds = {
  'resident memory after collection': { unit: 'MiB', boundPerHour: 36 },
  'heap after collection': { unit: 'MiB', boundPerHour: 6 },
  'file descriptors': { unit: '', boundPerHour: 12, isLeastOfMinute: true },
  connections: { unit: '', boundPerHour: 6, isLeastOfMinute: true },
  'memory of sessions': { unit: 'MiB', boundPerHour: 36, isLeastOfMinute: true },
  memory: { unit: 'MiB', boundPerHour: 3 },
  keys: { unit: '', boundPerHour: 180 },
  'keys that stay for ever': { unit: '', boundPerHour: 0 },
} satisfies Readonly<Record<string, Kind>>

export interface Series {
  readonly part: string
  readonly kind: keyof typeof kinds
  readonly points: Point[]
}

const ofProcesses: readonly Series['kind'][] = [
  'heap after collection',
  'resident memory after collection',
  'file descriptors',
]
const ofStores: Readonly<Record<string, readonly Series['kind'][]>> = {
  PostgreSQL: ['connections', 'memory of sessions'],
  Redis: ['keys', 'keys that stay for ever', 'memory', 'connections'],
}

export function listUnrecorded(processes: readonly string[], series: readonly Series[]): string[] {
  const parts = [...processes.map((name) => [name, ofProcesses] as const), ...Object.entries(ofStores)]
  return parts.flatMap(([part, expected]) =>
    expected
      .filter((kind) => !series.some((one) => one.part === part && one.kind === kind))
      .map((kind) => `${part}: ${kind}`),
  )
}

export function judgedPoints({ kind, points }: Series): readonly Point[] {
  const { isLeastOfMinute }: Kind = kinds[kind]
  return isLeastOfMinute === true ? leastOfEachMinute(points) : points
}
