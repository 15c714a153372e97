import { createHash } from 'node:crypto'
import {
  type EvidenceFile,
  getEvidenceFile,
  listCustodyEvents,
  listEvidenceFiles as listRoute,
  purgeEvidence,
  releaseEvidence,
  uuidSchema,
} from '@postern/contracts'
import {
  type App,
  type ContractInput,
  ProblemError,
  type RequestInfo,
  contractList,
  contractRoute,
  openPage,
  problem,
  wholeList,
} from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { insertCustodyEvents } from '../custody/store.ts'
import type { Deps } from '../deps.ts'
import { actorOf } from '../upload/record.ts'
import { notRecorded } from '../upload/refusal.ts'
import { reading } from '../upload/room.ts'
import { isBlobRecorded, lockBlob, recordFailure } from '../upload/store.ts'
import {
  type FoundFile,
  countCustody,
  countFiles,
  findFile,
  holdFile,
  insertDecision,
  listCustody,
  listFiles,
  reduceUsage,
} from './store.ts'

/** What administrators do with files that are there: look at what is known of them, release them, purge them. */
export function fileRoutes(app: App, { db, blobs }: Pick<Deps, 'db' | 'blobs'>): void {
  contractList(app, listRoute, {
    page: async (input) => {
      const { filter, page } = listOf(input)
      const [rows, total] = await reading(
        async () =>
          await db.read(input.context, async (tx) =>
            Promise.all([
              listFiles(tx, filter, { after: page.after, limit: page.limit + 1 }),
              page.wantsTotal ? countFiles(tx, filter) : undefined,
            ]),
          ),
      )
      if (total !== undefined) page.total(total)
      return page.finish(rows, ({ id }) => id)
    },
    all: (input) => {
      const { filter, page } = listOf(input)
      return wholeList(db, input.context, {
        after: page.after,
        size: exportBatch,
        list: async (tx: Tx, after: string | undefined, limit) => listFiles(tx, filter, { after, limit }),
        keyOf: ({ id }) => id,
      })
    },
  })

  contractRoute(app, getEvidenceFile, async ({ params, context, answer }) => {
    const { file } = await existing(db, context, params.id)
    answer.etag(etagOf(file))
    return file
  })

  contractList(app, listCustodyEvents, {
    page: async (input) => {
      const { params, context } = input
      const page = openPage(input, listCustodyEvents, uuidSchema)
      await existing(db, context, params.id)
      const [rows, total] = await reading(
        async () =>
          await db.read(context, async (tx) =>
            Promise.all([
              listCustody(tx, params.id, { after: page.after, limit: page.limit + 1 }),
              page.wantsTotal ? countCustody(tx, params.id) : undefined,
            ]),
          ),
      )
      if (total !== undefined) page.total(total)
      return page.finish(rows, ({ id }) => id)
    },
    all: async function* (input) {
      const { params, context } = input
      const page = openPage(input, listCustodyEvents, uuidSchema)
      await existing(db, context, params.id)
      yield* wholeList(db, context, {
        after: page.after,
        size: exportBatch,
        list: async (tx: Tx, after: string | undefined, limit) => listCustody(tx, params.id, { after, limit }),
        keyOf: ({ id }) => id,
      })
    },
  })

  contractRoute(app, releaseEvidence, async (input) => {
    const { params, body, context, requestId, answer, keep, log } = input
    return await writing(
      async () =>
        await db.write(context, async (tx) => {
          const { file } = await held(tx, params.id)
          if (file.status === 'accepted' || file.status === 'purged') throw problem('conflict', notInQuarantine)
          if (file.status === 'quarantined') {
            const actor = actorOf(context)
            await insertDecision(tx, file.id, { kind: 'released', reason: body.reason }, actor)
            const event = { kind: 'released', detail: { reason: body.reason, malware: file.malware } } as const
            await insertCustodyEvents(tx, { fileId: file.id }, [event], { actor, requestId })
            log.warn({ event: 'file_released', request_id: requestId, file_id: file.id, actor_id: actor.id })
          }
          const { file: released } = await held(tx, params.id)
          answer.etag(etagOf(released))
          return await keep(tx, released)
        }),
    )
  })

  contractRoute(app, purgeEvidence, async (input) => {
    const { params, body, context, requestId, answer, log } = input
    const purged = await writing(
      async () =>
        await db.write(context, async (tx) => {
          const { file, isRetentionOver } = await held(tx, params.id)
          if (file.status === 'purged') return file
          if (!isRetentionOver) {
            throw problem('conflict', { detail: `The file is to be kept until ${file.retention_until}.` })
          }
          const actor = actorOf(context)
          await insertDecision(tx, file.id, { kind: 'purged', reason: body.reason }, actor)
          const event = { kind: 'purged', detail: { reason: body.reason, sha256: file.sha256 } } as const
          await insertCustodyEvents(tx, { fileId: file.id }, [event], { actor, requestId })
          await reduceUsage(tx, file.size_bytes)
          log.warn({ event: 'file_purged', request_id: requestId, file_id: file.id, actor_id: actor.id })
          return (await held(tx, params.id)).file
        }),
    )
    // After the commit: were they gone before it, a commit that fails would leave a file without bytes. What a crash leaves
    // here costs room, and goes when the request is repeated. Hence no answer is kept in the transaction.
    await writing(
      async () =>
        await db.write(context, async (tx) => {
          await lockBlob(tx, purged.sha256)
          const blob = { tenantId: context.tenantId, sha256: purged.sha256 }
          if (!(await isBlobRecorded(tx, purged.sha256))) await blobs.removeAll(blob)
        }),
    )
    answer.etag(etagOf(purged))
    return purged
  })
}

/** Files and events that an export holds in memory at a time. */
const exportBatch = 250

const notInQuarantine = { detail: 'The file is not in quarantine.' }

function listOf(input: ContractInput<typeof listRoute>) {
  const { status, sha256, retention_over: over } = input.query
  const filter = { status, sha256, retentionOver: over === undefined ? undefined : over === 'true' }
  return { filter, page: openPage(input, listRoute, uuidSchema) }
}

async function existing(db: Deps['db'], context: RequestInfo['context'], id: string): Promise<FoundFile> {
  const found = await reading(async () => await db.read(context, async (tx) => findFile(tx, id)))
  if (found === undefined) throw problem('not_found')
  return found
}

/** The file, about which nobody else decides until the transaction ends. */
async function held(tx: Tx, id: string): Promise<FoundFile> {
  const found = await holdFile(tx, id)
  if (found === undefined) throw problem('not_found')
  return found
}

/** What is known of a file changes without a version of its own: by decisions, and with what it is attached to. */
function etagOf(file: EvidenceFile): string {
  return `"${createHash('sha256').update(JSON.stringify(file)).digest('base64url').slice(0, 22)}"`
}

async function writing<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (error instanceof ProblemError) throw error
    throw notRecorded(recordFailure(error), error)
  }
}
