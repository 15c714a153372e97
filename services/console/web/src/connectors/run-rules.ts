import type { Run } from '../api/sync.ts'

/** Whether something that the run has applied can be undone, as the API sees it. Undone itself is a rollback too. */
export function canBeUndone({ finished_at: end, counts, connector_id: connector, trigger }: Run): boolean {
  return end !== null && counts.applied > 0 && connector !== null && trigger !== 'push'
}

/** The key by which people know the connector of a run; undefined where nothing is left of it but that it is retired. */
export function keyOf({ connector_key: key }: Run): string | undefined {
  return key === null || /^retired-[\da-f]{8}-/.test(key) ? undefined : key
}

/** Whether `other` has undone the run with this id, or is doing so. */
export function isUndoneBy(id: string, other: Pick<Run, 'rollback_of' | 'status'>): boolean {
  return other.rollback_of === id && !['failed', 'cancelled', 'partial'].includes(other.status)
}
