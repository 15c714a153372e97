import { DatabaseError } from 'pg'

/** Runs a change up to five times if another process changed the same catalog rows at the same time. */
export async function withRetries(change: () => Promise<void>): Promise<void> {
  for (let triesLeft = 5; ; triesLeft -= 1) {
    try {
      await change()
      return
    } catch (error) {
      // duplicate_object, unique_violation, deadlock_detected, and "tuple concurrently updated", which has no SQLSTATE.
      if (triesLeft === 0 || !isState(error, '42710', '23505', '40P01', 'XX000')) throw error
    }
  }
}

/** Returns whether an error is a PostgreSQL error with one of these SQLSTATEs. */
export function isState(error: unknown, ...states: readonly string[]): boolean {
  return error instanceof DatabaseError && error.code !== undefined && states.includes(error.code)
}
