import { problem } from '@postern/service-kit'
import { type TenantDb, sqlError } from '@postern/tenant-db'

/**
 * Gives a database whose own failures (not reachable, too slow, deadlocked) reject as 503 problems. Everything else
 * passes as it is: violated constraints are for the stores, the rest is our bug and becomes a 500.
 */
export function answerDatabaseFailures(db: TenantDb): TenantDb {
  return {
    read: async (tenant, work) => await db.read(tenant, work).catch(refuse),
    write: async (tenant, work) => await db.write(tenant, work).catch(refuse),
    follow: (tenant, list, size) => followed(db.follow(tenant, list, size)),
    system: async (work) => await db.system(work).catch(refuse),
    ping: async (schema) => await db.ping(schema),
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

function refuse(cause: unknown): never {
  const { kind, constraint } = sqlError(cause)
  switch (overtaken.has(constraint) ? 'unavailable' : kind) {
    case 'unavailable':
    case 'timeout':
    case 'serialization':
    // The gateway mints an assertion for each request: one that is refused is a matter of secrets or clocks, not the caller's.
    case 'assertion':
      throw problem('service_unavailable', {
        detail: 'The database cannot answer now. Try again in a moment.',
        retryAfterSeconds: 1,
        cause,
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
