import {
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
  type RequestInfo,
  contractRoute,
  problem,
  storedList,
} from '@postern/service-kit'
import { insertCustodyEvents } from '../custody/store.ts'
import type { Config } from '../config.ts'
import type { Deps } from '../deps.ts'
import { requireUnlocked, testProcedureIds } from '../test-procedure/check.ts'
import { listReplacedProcedures } from '../upload/attachment-store.ts'
import { actorOf } from '../actor.ts'
import { finalizeBlob } from '../upload/finalize-blob.ts'
import { creditFile } from '../upload/usage-store.ts'
import { deletePurgedBytes, etagOf, fileToDecide } from './decide.ts'
import { countCustody, listCustody } from '../custody/store.ts'
import { type FoundFile, countFiles, findFile, insertDecision, listFiles } from './store.ts'

export function fileRoutes(
  app: App,
  { requestDb, blobs, universe, now }: Pick<Deps, 'requestDb' | 'blobs' | 'universe' | 'now'>,
  { abandonedAfterMs }: Pick<Config, 'abandonedAfterMs'>,
): void {
  storedList(app, listRoute, {
    source: requestDb,
    exportBatch,
    key: () => uuidSchema,
    asked: async (input) => await listOf(input, universe),
    list: async (tx, { filter, order }, place) => await listFiles(tx, filter, { order, ...place }),
    count: async (tx, { filter }) => await countFiles(tx, filter),
    keyOf: ({ id }) => id,
    show: (file) => file,
  })

  contractRoute(app, getEvidenceFile, async ({ params, context, answer }) => {
    const { file } = await getFile(requestDb, context, params.id)
    answer.etag(etagOf(file))
    return file
  })

  storedList(app, listCustodyEvents, {
    source: requestDb,
    exportBatch,
    key: () => uuidSchema,
    asked: async ({ params, context }) => (await getFile(requestDb, context, params.id)).file.id,
    list: listCustody,
    count: countCustody,
    keyOf: ({ id }) => id,
    show: (event) => event,
  })

  contractRoute(app, releaseEvidence, async (input) => {
    const { params, body, context, requestId, answer, keep, log } = input
    // No connection is held while the universe answers.
    const [found, replacedProcedures] = await requestDb.read(
      context,
      async (tx) => await Promise.all([findFile(tx, params.id), listReplacedProcedures(tx, params.id)]),
    )
    if (found?.file.status === 'quarantined')
      await requireUnlocked(universe, { context, requestId }, replacedProcedures)
    return await requestDb.write(context, async (tx) => {
      const { file } = await fileToDecide(tx, params.id)
      if (file.scan !== 'infected' || file.status === 'purged') throw problem('conflict', notInQuarantine)
      if (file.status === 'quarantined') {
        const actor = actorOf(context)
        await insertDecision(tx, file.id, { kind: 'released', reason: body.reason }, actor)
        const event = { kind: 'released', detail: { reason: body.reason, malware: file.malware } } as const
        await insertCustodyEvents(tx, { fileId: file.id }, [event], { actor, requestId })
        log.warn({ event: 'file_released', request_id: requestId, file_id: file.id, actor_id: actor.id })
      }
      const { file: released } = await fileToDecide(tx, params.id)
      answer.etag(etagOf(released))
      return await keep(tx, released)
    })
  })

  contractRoute(app, purgeEvidence, async (input) => {
    const { params, body, context, requestId, answer, log } = input
    const purged = await requestDb.write(context, async (tx) => {
      const { file, isRetentionOver } = await fileToDecide(tx, params.id)
      if (file.status === 'purged') return file
      if (!isRetentionOver) {
        throw problem('conflict', { detail: `The file must be kept until ${file.retention_until}.` })
      }
      if (file.legal_hold !== null) {
        throw problem('conflict', { detail: 'The file is under a legal hold. Lift the hold first.' })
      }
      const actor = actorOf(context)
      await insertDecision(tx, file.id, { kind: 'purged', reason: body.reason }, actor)
      const event = { kind: 'purged', detail: { reason: body.reason, sha256: file.sha256 } } as const
      await insertCustodyEvents(tx, { fileId: file.id }, [event], { actor, requestId })
      await creditFile(tx, file.size_bytes)
      log.warn({ event: 'file_purged', request_id: requestId, file_id: file.id, actor_id: actor.id })
      return (await fileToDecide(tx, params.id)).file
    })
    // After the commit, because a failed commit must not leave a file without bytes.
    await deletePurgedBytes(async () => {
      const blob = { tenantId: context.tenantId, sha256: purged.sha256 }
      for await (const found of blobs.reopen(blob, now() - abandonedAfterMs))
        await finalizeBlob({ db: requestDb, blobs }, context, found)
    })
    answer.etag(etagOf(purged))
    return purged
  })
}

const exportBatch = 250

const notInQuarantine = { detail: 'The file is not in quarantine.' }

async function listOf(input: ContractInput<typeof listRoute>, universe: Deps['universe']) {
  const { status, sha256, retention_over: over, legal_hold: hold, sort, ...query } = input.query
  const filter = {
    status,
    sha256,
    retentionOver: isAsked(over),
    legalHold: isAsked(hold),
    testProcedureIds: query.test_procedure_id && (await testProcedureIds(universe, input, query.test_procedure_id)),
    receivedAfter: query.received_after === undefined ? undefined : new Date(query.received_after),
    receivedBefore: query.received_before === undefined ? undefined : new Date(query.received_before),
    evidenceFrom: query.evidence_from,
    evidenceTo: query.evidence_to,
    text: query.q,
  }
  const order = sort === 'received_at' ? ('asc' as const) : ('desc' as const)
  return { filter, order }
}

function isAsked(word: 'true' | 'false' | undefined): boolean | undefined {
  return word === undefined ? undefined : word === 'true'
}

async function getFile(db: Deps['requestDb'], context: RequestInfo['context'], id: string): Promise<FoundFile> {
  const found = await db.read(context, async (tx) => await findFile(tx, id))
  if (found === undefined) throw problem('not_found')
  return found
}
