import { sqlError } from '@postern/tenant-db'

// Re-exported, because only stores may import tenant-db.
export { tenantOf } from '@postern/tenant-db'

/** The constraint that a failed statement violates. */
export function brokenConstraint(error: unknown): string | undefined {
  return sqlError(error).constraint
}

export function jsonOrNull(value: object | null | undefined): string | null {
  return value === undefined || value === null ? null : JSON.stringify(value)
}
