import {
  appendUpload,
  createUpload,
  deleteUpload as deleteUploadRoute,
  describeUpload,
  describeUploads,
  readUpload,
  receiptHeader,
  tusExtensions,
  tusVersion,
} from '@postern/contracts'
import {
  type AnswerControl,
  type App,
  ProblemError,
  type RequestInfo,
  contractRoute,
  discardRest,
  problem,
} from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Config } from '../config.ts'
import { insertCustodyEvents } from '../custody/store.ts'
import type { Deps } from '../deps.ts'
import { type LocateInput, requireTestProcedures } from '../test-procedure/check.ts'
import { actorOf } from '../actor.ts'
import {
  assertQuota,
  transferReservation,
  reportLookupFailure,
  releaseReservation,
  reserveLapsed,
  reserveUpload,
} from '../upload/quota.ts'
import { append, pieceTooLargeProblem } from './append.ts'
import { createCompletion } from './complete.ts'
import { assertPlain, assertTusVersion, badHeader, readCreation } from './headers.ts'
import { parseBytes, parseChecksum } from './rules.ts'
import { type ResumableUpload, deleteUpload, endTurn, expireUploads, insertUpload } from './store.ts'
import { acquireUpload, finishTurn, startTurn } from './turn.ts'
import { createRequestSequencer } from './request-sequencer.ts'

type Parts = Pick<Deps, 'db' | 'blobs' | 'partials' | 'receipts' | 'scanner' | 'universe' | 'now' | 'cleanup'>
type Limits = Pick<
  Config,
  'allowedTypes' | 'maxFileBytes' | 'stallMs' | 'abandonedAfterMs' | 'tenantQuotaBytes' | 'resumableForMs'
>

export function resumableRoutes(app: App, deps: Parts, limits: Limits): void {
  const { db, partials } = deps
  const sequencer = createRequestSequencer()
  const completion = createCompletion(deps, limits)

  contractRoute(app, createUpload, async ({ context, requestId, raw, answer, keep }) => {
    assertTusVersion(answer, raw.headers)
    describe(answer)
    const upload = readCreation(raw.headers, limits, deps.now())
    await assertQuota(deps, context, { bytes: upload.length }, limits.tenantQuotaBytes)
    const named = upload.details.test_procedures ?? []
    await requireTestProcedures(deps.universe, { context, requestId }, named, pointToMetadata)
    await reportLookupFailure(async () => {
      const reservationId = await reserveUpload(deps, context, upload.length, limits.tenantQuotaBytes)
      await db
        .write(context, async (tx) => {
          const actor = actorOf(context)
          await transferReservation(tx, reservationId)
          await expireUploads(tx, requestId)
          const { id, expiresAt } = await insertUpload(tx, upload, actor, limits.resumableForMs)
          const begun = {
            kind: 'upload_begun',
            detail: { file_name: upload.fileName, size_bytes: upload.length },
          } as const
          await insertCustodyEvents(tx, { uploadId: id }, [begun], { actor, requestId })
          answer.header('location', createUpload.path + `/${id}`)
          answer.header('upload-expires', expiresAt.toUTCString())
          await keep(tx, undefined)
        })
        .catch(async (error: unknown) => {
          await releaseReservation(deps, context, reservationId)
          throw error
        })
    })
    return undefined
  })

  contractRoute(app, readUpload, async (input) => {
    const { context, params, answer } = input
    assertTusVersion(answer, input.raw.headers)
    return await sequencer.run(sequenceKeyOf(context, params.id), async () => {
      const upload = await mapTimeoutToRetry(acquireUpload(deps, context, params.id, async (_tx, found) => found))
      answer.header('upload-length', String(upload.length))
      if (upload.metadata !== undefined) answer.header('upload-metadata', upload.metadata)
      await answerOffset(input, upload)
      return undefined
    })
  })

  contractRoute(app, appendUpload, async (input) => {
    const { context, params, raw, answer } = input
    assertTusVersion(answer, raw.headers)
    try {
      assertPlain(raw.headers)
      const offset = parseBytes(raw.headers['upload-offset'])
      if (offset === undefined) throw badHeader('Upload-Offset', 'must be a number of bytes')
      const given = raw.headers['upload-checksum']
      const checksum = given === undefined ? undefined : parseChecksum(given)
      if (given !== undefined && checksum === undefined) {
        throw badHeader('Upload-Checksum', 'must be sha256 or sha1 and a digest in base64')
      }
      return await sequencer.run(sequenceKeyOf(context, params.id), async (signal) => {
        const isChecked = checksum !== undefined
        const reservationId = await reportLookupFailure(
          async () => await reserveLapsed(deps, context, ownUpload(context, params.id), limits.tenantQuotaBytes),
        )
        const { upload, turn } = await mapTimeoutToRetry(
          acquireUpload(deps, context, params.id, async (tx, found) => {
            await transferReservation(tx, reservationId)
            const isOurs = found.receiptJws === undefined && found.arrived === offset && found.arrived < found.length
            return { upload: found, turn: isOurs ? await startTurn(tx, found, isChecked) : undefined }
          }),
        ).catch(async (error: unknown) => {
          await releaseReservation(deps, context, reservationId)
          throw error
        })
        const arrived = arrivedOf(upload)
        if (offset !== arrived) {
          throw problem('conflict', { detail: `${arrived} bytes have arrived. Continue at that offset.` })
        }
        const atMost = upload.length - offset
        if ((parseBytes(raw.headers['content-length']) ?? 0) > atMost) {
          throw pieceTooLargeProblem()
        }
        if (turn === undefined) {
          await answerOffset(input, upload)
          return undefined
        }
        const writer = await partials.append(context.tenantId, upload.id, turn)
        let length = 0
        try {
          await append(raw.body, writer, { atMost, checksum, stallMs: limits.stallMs, signal })
        } catch (error) {
          if (error instanceof ProblemError && error.code === 'content_too_large') {
            await reportLookupFailure(async () =>
              db.write(context, async (tx) => await endTurn(tx, upload.id, turn, 0)),
            )
          }
          throw error
        } finally {
          length = await writer.close()
        }
        await answerOffset(input, {
          ...upload,
          arrived: await mapTimeoutToRetry(finishTurn(deps, context, upload.id, { turn, length })),
        })
        return undefined
      })
    } catch (error) {
      void discardRest(raw.body)
      throw error
    }
  })

  contractRoute(app, deleteUploadRoute, async ({ context, requestId, params, raw, answer }) => {
    assertTusVersion(answer, raw.headers)
    return await sequencer.run(sequenceKeyOf(context, params.id), async () => {
      await acquireUpload(deps, context, params.id, async (tx, upload) => {
        if (upload.receiptJws !== undefined) {
          throw problem('conflict', {
            detail: 'The upload is complete, and received evidence cannot be deleted this way.',
          })
        }
        await recordAbandonedUpload(tx, upload.id, { context, requestId }, 'by_sender')
      })
      await deps.cleanup.run(async () => await partials.remove(context.tenantId, params.id))
      return undefined
    })
  })

  for (const route of [describeUploads, describeUpload]) {
    contractRoute(app, route, async ({ answer }) => {
      describe(answer)
      return undefined
    })
  }

  function describe(answer: AnswerControl): void {
    answer.header('tus-version', tusVersion)
    answer.header('tus-extension', tusExtensions)
    answer.header('tus-max-size', String(limits.maxFileBytes))
  }

  /** Answers with the offset. Records the file first if all bytes have arrived. */
  async function answerOffset(
    { context, requestId, log, raw, answer }: Pick<RequestInfo, 'context' | 'requestId' | 'log' | 'raw' | 'answer'>,
    upload: ResumableUpload,
  ): Promise<void> {
    const arrived = arrivedOf(upload)
    if (arrived === upload.length) {
      const jws = upload.receiptJws ?? (await completeOrGiveUp(upload, { context, requestId, log, raw }))
      answer.header(receiptHeader, jws)
    } else {
      answer.header('upload-expires', upload.expiresAt.toUTCString())
    }
    answer.header('upload-offset', String(arrived))
  }

  async function completeOrGiveUp(
    upload: ResumableUpload,
    request: Pick<RequestInfo, 'context' | 'requestId' | 'log' | 'raw'>,
  ): Promise<string> {
    const { context } = request
    try {
      return await mapTimeoutToRetry(completion.complete(upload, request))
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error
      switch (error.code) {
        case 'unsupported_media_type':
        case 'digest_mismatch':
        case 'invalid_content':
          // No further piece could correct the file.
          await reportLookupFailure(async () =>
            db.write(context, async (tx) => recordAbandonedUpload(tx, upload.id, request, error.code)),
          )
          await deps.cleanup.run(async () => await partials.remove(context.tenantId, upload.id))
          throw error
        default:
          throw error
      }
    }
  }
}

async function recordAbandonedUpload(
  tx: Tx,
  id: string,
  { context, requestId }: Pick<RequestInfo, 'context' | 'requestId'>,
  reason: string,
): Promise<void> {
  if (!(await deleteUpload(tx, id))) return
  const givenUp = { kind: 'upload_given_up', detail: { reason } } as const
  await insertCustodyEvents(tx, { uploadId: id }, [givenUp], { actor: actorOf(context), requestId })
}

const pointToMetadata: LocateInput = () => ({ parameter: 'Upload-Metadata' })

/** With the caller, so that other callers cannot delay the owner. */
function sequenceKeyOf(context: RequestInfo['context'], uploadId: string): string {
  const { type, id } = actorOf(context)
  return JSON.stringify([context.tenantId, type, id, uploadId])
}

function ownUpload(context: RequestInfo['context'], uploadId: string) {
  return { uploadId, actor: actorOf(context) }
}

function arrivedOf(upload: ResumableUpload): number {
  return upload.receiptJws === undefined ? upload.arrived : upload.length
}

async function mapTimeoutToRetry<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'request_timeout') throw error
    throw problem('service_unavailable', {
      detail: 'The bytes that arrived are stored. Send HEAD to continue the upload.',
      retryAfterSeconds: 1,
      cause: error,
    })
  }
}
