import { DatabaseError } from 'pg'

/** Does it again, five times at most, when another process has changed the same rows of the catalog at the same moment. */
export async function withRetries(change: () => Promise<void>): Promise<void> {
  for (let triesLeft = 5; ; triesLeft -= 1) {
    try {
      await change()
      return
    } catch (error) {
      // duplicate_object, unique_violation, deadlock_detected, and "tuple concurrently updated", which has no state.
      if (triesLeft === 0 || !isState(error, '42710', '23505', '40P01', 'XX000')) throw error
    }
  }
}

/** Whether it is PostgreSQL's word for one of these SQLSTATEs. */
export function isState(error: unknown, ...states: readonly string[]): boolean {
  return error instanceof DatabaseError && error.code !== undefined && states.includes(error.code)
}
