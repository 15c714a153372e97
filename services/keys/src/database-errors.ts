import { ProblemError, databaseUnavailable, problem } from '@postern/service-kit'
import { type TenantDb, sqlError } from '@postern/tenant-db'

/** PostgreSQL did not confirm whether it committed. */
export class CommitInDoubtError extends Error {
  override readonly name = 'CommitInDoubtError'
}

/** Rejects with 503 problems if PostgreSQL is unreachable, too slow or deadlocked. Other errors pass unchanged. */
export function mapDatabaseErrors(db: TenantDb): TenantDb {
  return {
    ...db,
    read: async (tenant, work) => await db.read(tenant, work).catch((error: unknown) => refuse(error)),
    write: async (tenant, work) => {
      const state = { isCommitting: false }
      const writing = db.write(tenant, async (tx) => {
        const value = await work(tx)
        state.isCommitting = true
        return value
      })
      return await writing.catch((error: unknown) => {
        const unavailable = databaseUnavailable(error, 'write')
        if (unavailable.code === 'insufficient_storage') throw unavailable
        return refuse(error, state.isCommitting)
      })
    },
    follow: (tenant, list, size) => mapStreamErrors(db.follow(tenant, list, size)),
    system: async (work) => await db.system(work).catch((error: unknown) => refuse(error)),
  }
}

/** Whether PostgreSQL could not be reached, also if `mapDatabaseErrors` mapped the error. */
export function isDatabaseUnavailable(error: unknown): boolean {
  return sqlError(error instanceof ProblemError ? error.cause : error).kind === 'unavailable'
}

async function* mapStreamErrors<T>(batches: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* batches
  } catch (error) {
    refuse(error)
  }
}

/**
 * Constraints that fail only if the clock was set back or the policy changed between two statements. A retry reads the
 * new values.
 */
const transientConstraints: ReadonlySet<string | undefined> = new Set([
  'api_key_created_now',
  'api_key_expires_after_creation',
  'api_key_within_maximum',
  'api_key_within_required_addresses',
  'api_key_without_wildcards',
  'api_key_with_owner',
])

/** `isCommitting`: the transaction failed during its commit. */
function refuse(cause: unknown, isCommitting = false): never {
  const { kind, constraint, sqlState } = sqlError(cause)
  // PostgreSQL rolls back after its own errors; a lost connection leaves the result unknown.
  const isInDoubt = isCommitting && (sqlState === undefined || kind === 'unavailable')
  switch (transientConstraints.has(constraint) ? 'unavailable' : kind) {
    case 'unavailable':
    case 'timeout':
    case 'serialization':
    // The gateway creates an assertion per request, so secrets or clocks are wrong.
    case 'assertion':
      throw problem('service_unavailable', {
        detail: 'The database is not available. Try again in a moment.',
        retryAfterSeconds: 1,
        cause: isInDoubt ? new CommitInDoubtError('PostgreSQL did not confirm the commit', { cause }) : cause,
      })
    case 'unique':
    case 'foreign-key':
    case 'check':
    case 'not-null':
    case 'rls':
    case 'other':
      throw cause
  }
}
