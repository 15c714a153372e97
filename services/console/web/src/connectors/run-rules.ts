import type { Run } from '../api/sync.ts'

/** A rollback can be reverted as well. */
export function canBeUndone({ finished_at: end, counts, connector_id: connector, trigger }: Run): boolean {
  return end !== null && counts.applied > 0 && connector !== null && trigger !== 'push'
}

/** Returns undefined if the connector is retired. */
export function keyOf({ connector_key: key }: Run): string | undefined {
  return key === null || /^retired-[\da-f]{8}-/.test(key) ? undefined : key
}

export function isUndoneBy(id: string, other: Pick<Run, 'rollback_of' | 'status'>): boolean {
  return other.rollback_of === id && !['failed', 'cancelled', 'partial'].includes(other.status)
}
