import { randomInt } from 'node:crypto'
import type { Logger } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { type BlobStore, type SettlingBlob, ofEach } from '../blob/blob-store.ts'
import type { PartialStore, PartialUpload } from '../blob/partial-store.ts'
import { type Config, maxResumableMs } from '../config.ts'
import { isAbandonedRecorded, isUploadOpen, lockAbandoned } from './store.ts'

/** Entries and uploads that are done with in a round. More than that are left to the next. */
const maxDecisions = 10_000

/** Uploads of a tenant that are asked about and found open: with ever more of them it would keep others waiting. */
const maxOpen = 1000

/** After so many in a row that cannot be decided now, more likely none can. */
const maxFailures = 10

interface Parts {
  readonly db: Pick<TenantDb, 'system'>
  readonly blobs: BlobStore
  readonly partials: PartialStore
}

export interface Sweep {
  /** Ends the sweeping, after what it is deciding now. */
  stop(): Promise<void>
}

/**
 * Takes away what uploads have left behind, of all tenants, every `sweepEveryMs`. What never was whole is judged by its age
 * alone: in `incoming/` once before this resolves, and pieces older than any upload may be. What the database must be asked about
 * is whole files between the store and the database, and pieces of resumable uploads that are recorded, expired or gone. Where the database or
 * the store does not answer, nothing is taken away.
 */
export async function sweepRegularly(
  { db, blobs, partials }: Parts,
  { abandonedAfterMs, sweepEveryMs }: Pick<Config, 'abandonedAfterMs' | 'sweepEveryMs'>,
  { logger, now }: { readonly logger: Logger; readonly now: () => number },
): Promise<Sweep> {
  const closing = new AbortController()
  // The earlier of two clocks: where one is ahead, what is young must not look old.
  const before = async (ms: number) => Math.min(now(), await blobs.time()) - ms
  const byAge = [
    async () => {
      const count = await blobs.sweepIncoming(await before(abandonedAfterMs))
      if (count > 0) logger.info({ event: 'incoming_swept', files: count })
    },
    async () => {
      // Nothing was added for longer than any setting lets an upload take: whatever it was when the upload began, its row has expired.
      const expired = await partials.sweep(await before(maxResumableMs))
      if (expired > 0) logger.info({ event: 'partial_swept', files: expired })
    },
  ]
  const byRows = [
    async () => {
      const decide = async (blob: SettlingBlob) => {
        logger.info({ event: 'upload_settled', recorded: await settleAbandoned({ db, blobs }, blob) })
        return true
      }
      await each(unsettled(blobs, await before(abandonedAfterMs)), decide, { logger, signal: closing.signal })
    },
    // Of a tenant with more than `maxOpen` open ones those that are listed first are asked about each time; the others go by their age.
    async () => {
      const decide = async (upload: PartialUpload) => {
        if (await db.system(async (tx) => await isUploadOpen(tx, upload))) return false
        await partials.remove(upload.tenantId, upload.id)
        logger.info({ event: 'partial_swept', uploads: 1 })
        return true
      }
      await each(partials.list(await before(abandonedAfterMs)), decide, { logger, signal: closing.signal })
    },
  ]
  // What one step may not do, as where a role lacks a right, keeps none of the others from being done.
  const run = async (steps: readonly (() => Promise<void>)[]): Promise<void> => {
    for (const step of steps) {
      try {
        if (!closing.signal.aborted) await step()
      } catch (error) {
        // A sweep that fails costs disk space, not evidence: the service goes on, and the next round tries again.
        logger.error({ event: 'sweep_failed', err: error })
      }
    }
  }
  await run(byAge)
  // The service need not wait for a database that is away.
  let round: Promise<void> | undefined
  const begin = (steps: readonly (() => Promise<void>)[]) => {
    round ??= run(steps).finally(() => {
      round = undefined
    })
  }
  begin(byRows)
  const timer = setInterval(() => begin([...byAge, ...byRows]), sweepEveryMs)
  timer.unref()
  return {
    stop: async () => {
      clearInterval(timer)
      closing.abort()
      await round
    },
  }
}

/**
 * Decides over one after the other, until `maxDecisions` of them are done with: `decide` says whether one is. What cannot be
 * decided now is decided another time, and keeps none of the others waiting.
 */
async function each<T extends { readonly tenantId: string }>(
  items: AsyncIterable<T>,
  decide: (item: T) => Promise<boolean>,
  { logger, signal }: { readonly logger: Logger; readonly signal: AbortSignal },
): Promise<void> {
  let decided = 0
  let failedInARow = 0
  const open = new Map<string, number>()
  for await (const item of items) {
    if (signal.aborted || decided === maxDecisions || failedInARow === maxFailures) return
    const openBefore = open.get(item.tenantId) ?? 0
    if (openBefore === maxOpen) continue
    try {
      if (await decide(item)) decided += 1
      else open.set(item.tenantId, openBefore + 1)
      failedInARow = 0
    } catch (error) {
      failedInARow += 1
      logger.error({ event: 'settling_failed', err: error })
    }
  }
}

/** In an order that changes, so that a tenant whose entries can never be decided does not hide the same others for ever. */
async function* unsettled(blobs: BlobStore, olderThan: number): AsyncGenerator<SettlingBlob> {
  const tenants = [...(await blobs.listUnsettled(olderThan))]
  const from = randomInt(tenants.length + 1)
  yield* ofEach([...tenants.slice(from), ...tenants.slice(0, from)], async function* ofTenant(tenantId) {
    yield* await blobs.listSettling(tenantId, olderThan)
  })
}

/** As `finalizeBlob`, for a tenant that asks for nothing: whether a row names the bytes of an upload that ended between store and database. */
async function settleAbandoned({ db, blobs }: Omit<Parts, 'partials'>, blob: SettlingBlob): Promise<boolean> {
  const isRecorded = await db.system(async (tx) => {
    await lockAbandoned(tx, blob)
    const isNamed = await isAbandonedRecorded(tx, blob)
    if (!isNamed) await blobs.remove(blob)
    return isNamed
  })
  await blobs.finish(blob, isRecorded ? 'kept' : 'gone')
  return isRecorded
}
