import type { Logger } from '@postern/service-kit'
import { request } from 'undici'
import { z } from 'zod'

/** With different databases, a suspension does not reach all services, and the change feed is incomplete. */
export class DatabasesDifferError extends Error {
  override readonly name = 'DatabasesDifferError'
}

export interface SharedDatabaseCheck {
  /** A service that does not answer keeps what it reported before. */
  refresh(): Promise<void>
  /** Throws DatabasesDifferError. */
  assertShared(): void
}

const timeoutMs = 2_000
const readySchema = z.object({ database: z.string().optional() })

/** `urls` are origins by name. */
export function createSharedDatabaseCheck(urls: Readonly<Record<string, string>>, logger: Logger): SharedDatabaseCheck {
  const databases = new Map<string, string>()
  let differed = false

  const isShared = (): boolean => new Set(databases.values()).size <= 1

  async function ask(name: string, url: string): Promise<void> {
    try {
      const { statusCode, body } = await request(new URL('/internal/health/ready', url), {
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        signal: AbortSignal.timeout(timeoutMs),
      })
      const answer = readySchema.safeParse(await body.json())
      if (statusCode === 200 && answer.data?.database !== undefined) databases.set(name, answer.data.database)
    } catch {}
  }

  return {
    refresh: async () => {
      await Promise.all(Object.entries(urls).map(async ([name, url]) => await ask(name, url)))
      const differ = !isShared()
      if (differ && !differed) logger.error({ event: 'databases_differ', databases: Object.fromEntries(databases) })
      if (!differ && differed) logger.info({ event: 'databases_shared' })
      differed = differ
    },
    assertShared: () => {
      if (!isShared()) throw new DatabasesDifferError('all services must use the same PostgreSQL database')
    },
  }
}
