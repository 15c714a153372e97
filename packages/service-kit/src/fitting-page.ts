import type { RequestContext } from './tenant-shares.ts'

/** What is too large is read again with so many times fewer items. */
export const shrinkFactor = 8

/** Whether the error is ResultTooLargeError of tenant-db, which not every service imports. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof Error && error.name === 'ResultTooLargeError'
}

const maxRemembered = 1000
const pagesBetweenTries = 16

/** Which page sizes fitted into an answer, by tenant. */
interface PageMemory {
  fittingLimit(tenantId: string, asked: number): number
  expectedBytes(tenantId: string, asked: number): number | undefined
  record(tenantId: string, page: PageRead): void
}

interface PageRequest {
  readonly query: unknown
  readonly context: RequestContext
}

interface PageRead {
  readonly asked: number
  readonly limit: number
  readonly rows: number
  readonly bytes: number
}

export function createPageMemory(): PageMemory {
  const known = new Map<string, { readonly limit: number; readonly pages: number; readonly itemBytes: number }>()

  function fittingLimit(tenantId: string, asked: number): number {
    const { limit = Infinity, pages = 0 } = known.get(tenantId) ?? {}
    return Math.min(asked, pages === pagesBetweenTries ? limit * 2 : limit)
  }

  return {
    fittingLimit,
    expectedBytes: (tenantId, asked) => {
      const { itemBytes } = known.get(tenantId) ?? {}
      return itemBytes && fittingLimit(tenantId, asked) * itemBytes
    },
    record: (tenantId, { asked, limit, rows, bytes }) => {
      if (rows === 0) return
      const before = known.get(tenantId)
      known.delete(tenantId)
      const hasGrown = limit === asked && limit > (before?.limit ?? Infinity)
      const fitting = limit < asked ? limit : hasGrown ? Infinity : (before?.limit ?? Infinity)
      known.set(tenantId, {
        limit: fitting,
        pages: fitting === before?.limit ? (before.pages % pagesBetweenTries) + 1 : 0,
        // A few short items do not mean that all are short.
        itemBytes: Math.max(bytes / Math.min(limit, rows), (before?.itemBytes ?? 0) * 0.9),
      })
      const [oldest] = known.keys()
      if (known.size > maxRemembered && oldest !== undefined) known.delete(oldest)
    },
  }
}

/** Reads fewer items if the page is too large; `Link` continues after a shorter page. */
export async function readFittingPage<Input extends PageRequest, Body>(
  page: (input: Input) => Promise<Body>,
  input: Input,
  memory: PageMemory,
): Promise<Body> {
  const asked: unknown = Reflect.get(Object(input.query), 'limit')
  if (typeof asked !== 'number') return await page(input)
  const { tenantId, share } = input.context
  await share?.acquireRead(() => memory.expectedBytes(tenantId, asked))
  try {
    let limit = memory.fittingLimit(tenantId, asked)
    for (;;) {
      try {
        const body = await page(limit === asked ? input : { ...input, query: { ...Object(input.query), limit } })
        if (share !== undefined) {
          const { rowBytes: bytes, rowCount: rows } = share
          memory.record(tenantId, { asked, limit, rows, bytes })
        }
        return body
      } catch (error) {
        if (!isTooLarge(error) || limit === 1) throw error
        limit = Math.max(1, Math.floor(limit / shrinkFactor))
        share?.releaseRows()
      }
    }
  } finally {
    share?.releaseRead()
  }
}
