import { randomInt } from 'node:crypto'
import type { Logger } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { type BlobStore, type PendingBlob, listOfEach } from '../blob/blob-store.ts'
import type { PartialStore, PartialUpload } from '../blob/partial-store.ts'
import { type Config, maxResumableMs } from '../config.ts'
import { isAbandonedRecorded, isUploadOpen, lockAbandoned } from './store.ts'

/** Per round. */
const maxDecisions = 10_000
/** Of one tenant. */
const maxOpen = 1000
/** In a row. */
const maxFailures = 10

interface Parts {
  readonly db: Pick<TenantDb, 'system'>
  readonly blobs: BlobStore
  readonly partials: PartialStore
}

export interface Sweep {
  stop(): Promise<void>
}

/**
 * Deletes leftovers of uploads: incomplete files by their age, complete files and pieces only if the database says that no
 * row names them.
 */
export async function sweepRegularly(
  { db, blobs, partials }: Parts,
  { abandonedAfterMs, sweepEveryMs }: Pick<Config, 'abandonedAfterMs' | 'sweepEveryMs'>,
  { logger, now }: { readonly logger: Logger; readonly now: () => number },
): Promise<Sweep> {
  const closing = new AbortController()
  // The earlier clock, so that a fast one does not make files look old.
  const before = async (ms: number) => Math.min(now(), await blobs.time()) - ms
  const byAge = [
    async () => {
      const count = await blobs.sweepIncoming(await before(abandonedAfterMs))
      if (count > 0) logger.info({ event: 'incoming_swept', files: count })
    },
    async () => {
      const expired = await partials.sweep(await before(maxResumableMs))
      if (expired > 0) logger.info({ event: 'partial_swept', files: expired })
    },
  ]
  const byRows = [
    async () => {
      const decide = async (blob: PendingBlob) => {
        logger.info({ event: 'upload_settled', recorded: await finalizeAbandoned({ db, blobs }, blob) })
        return true
      }
      await forEachTenant(listUnsettled(blobs, await before(abandonedAfterMs)), decide, {
        logger,
        signal: closing.signal,
      })
    },
    async () => {
      const decide = async (upload: PartialUpload) => {
        if (await db.system(async (tx) => await isUploadOpen(tx, upload))) return false
        await partials.remove(upload.tenantId, upload.id)
        logger.info({ event: 'partial_swept', uploads: 1 })
        return true
      }
      await forEachTenant(partials.list(await before(abandonedAfterMs)), decide, { logger, signal: closing.signal })
    },
  ]
  const run = async (steps: readonly (() => Promise<void>)[]): Promise<void> => {
    for (const step of steps) {
      try {
        if (!closing.signal.aborted) await step()
      } catch (error) {
        logger.error({ event: 'sweep_failed', err: error })
      }
    }
  }
  await run(byAge)
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

async function forEachTenant<T extends { readonly tenantId: string }>(
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

/** Starts at a random tenant, so that undecidable entries do not block the same tenants forever. */
async function* listUnsettled(blobs: BlobStore, olderThan: number): AsyncGenerator<PendingBlob> {
  const tenants = [...(await blobs.listTenantsWithPending(olderThan))]
  const from = randomInt(tenants.length + 1)
  yield* listOfEach([...tenants.slice(from), ...tenants.slice(0, from)], async function* ofTenant(tenantId) {
    yield* await blobs.listPending(tenantId, olderThan)
  })
}

async function finalizeAbandoned({ db, blobs }: Omit<Parts, 'partials'>, blob: PendingBlob): Promise<boolean> {
  const isRecorded = await db.system(async (tx) => {
    await lockAbandoned(tx, blob)
    const isNamed = await isAbandonedRecorded(tx, blob)
    if (!isNamed) await blobs.remove(blob)
    return isNamed
  })
  await blobs.finish(blob, isRecorded ? 'kept' : 'gone')
  return isRecorded
}
