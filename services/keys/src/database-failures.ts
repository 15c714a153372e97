import { databaseAway, problem } from '@postern/service-kit'
import { type TenantDb, sqlError } from '@postern/tenant-db'

/** The cause of a 503 where PostgreSQL was asked to commit and has not said what became of that: it has, or it has not. */
export class CommitInDoubt extends Error {
  override readonly name = 'CommitInDoubt'
}

/**
 * Gives a database whose own failures (not reachable, too slow, deadlocked) reject as 503 problems. Everything else
 * passes as it is: violated constraints are for the stores, the rest is our bug and becomes a 500.
 */
export function answerDatabaseFailures(db: TenantDb): TenantDb {
  return {
    read: async (tenant, work) => await db.read(tenant, work).catch((error: unknown) => refuse(error)),
    write: async (tenant, work) => {
      const state = { isCommitting: false }
      const writing = db.write(tenant, async (tx) => {
        const value = await work(tx)
        state.isCommitting = true
        return value
      })
      return await writing.catch((error: unknown) => {
        if (sqlError(error).sqlState === diskFull) throw databaseAway(error, 'write')
        return refuse(error, state.isCommitting)
      })
    },
    follow: (tenant, list, size) => followed(db.follow(tenant, list, size)),
    system: async (work) => await db.system(work).catch((error: unknown) => refuse(error)),
    ping: async (schema) => await db.ping(schema),
    databaseId: async () => await db.databaseId(),
    close: async () => await db.close(),
    stats: () => db.stats(),
  }
}

async function* followed<T>(batches: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* batches
  } catch (error) {
    refuse(error)
  }
}

/**
 * What was read is no longer so: the clock of the database was set back, or the policy changed, between the statement that has read it and the one
 * that uses what was read. Asked again, it is decided on what is so now.
 */
const overtaken: ReadonlySet<string | undefined> = new Set([
  'api_key_created_now',
  'api_key_expires_after_creation',
  'api_key_within_maximum',
  'api_key_within_required_addresses',
])

const diskFull = '53100'

/** `isCommitting`: nothing was left to do but the commit. */
function refuse(cause: unknown, isCommitting = false): never {
  const { kind, constraint, sqlState } = sqlError(cause)
  // What PostgreSQL itself calls an error it has rolled back; of a connection or a server that goes meanwhile nobody can tell.
  const isInDoubt = isCommitting && (sqlState === undefined || kind === 'unavailable')
  switch (overtaken.has(constraint) ? 'unavailable' : kind) {
    case 'unavailable':
    case 'timeout':
    case 'serialization':
    // The gateway mints an assertion for each request: one that is refused is a matter of secrets or clocks, not the caller's.
    case 'assertion':
      throw problem('service_unavailable', {
        detail: 'The database cannot answer now. Try again in a moment.',
        retryAfterSeconds: 1,
        cause: isInDoubt ? new CommitInDoubt('nobody knows whether it is committed', { cause }) : cause,
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
