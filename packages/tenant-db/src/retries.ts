import { DatabaseError } from 'pg'

/** Another process may change the same catalog rows. */
export async function withRetries(change: () => Promise<void>): Promise<void> {
  for (let triesLeft = 5; ; triesLeft -= 1) {
    try {
      await change()
      return
    } catch (error) {
      // duplicate_object, unique_violation, deadlock_detected, and "tuple concurrently updated".
      if (triesLeft === 0 || !isState(error, '42710', '23505', '40P01', 'XX000')) throw error
    }
  }
}

export function isState(error: unknown, ...states: readonly string[]): boolean {
  return error instanceof DatabaseError && error.code !== undefined && states.includes(error.code)
}
