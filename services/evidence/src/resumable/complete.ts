import { Readable } from 'node:stream'
import { ProblemError, type RequestInfo, problem } from '@postern/service-kit'
import type { Config } from '../config.ts'
import type { Deps } from '../deps.ts'
import { warnOfQuarantine } from '../scan/warn.ts'
import { openTestProcedures } from '../test-procedure/check.ts'
import { receiveBody } from '../upload/receive.ts'
import { record, finishRecording } from '../upload/record.ts'
import { assertAwaited } from '../upload/refusal.ts'
import { assertQuota, reportLookupFailure } from '../upload/quota.ts'
import type { ReceivedFile } from '../upload/parse-upload.ts'
import { type ResumableUpload, completeUpload, findReceipt, listPieces } from './store.ts'

type Parts = Pick<Deps, 'db' | 'blobs' | 'partials' | 'receipts' | 'scanner' | 'universe' | 'now' | 'cleanup'>
type Limits = Pick<Config, 'allowedTypes' | 'tenantQuotaBytes' | 'abandonedAfterMs' | 'stallMs'>
type Request = Pick<RequestInfo, 'context' | 'requestId' | 'log' | 'raw'>

export interface Completion {
  /** Records an upload whose bytes have arrived, and returns the JWS of its receipt. Any replica can retry. */
  complete(upload: ResumableUpload, request: Request): Promise<string>
}

export function createCompletion(deps: Parts, limits: Limits): Completion {
  // Assembled files whose request outlived its assertion. The client's next request reuses them.
  const assembled = new Map<string, { readonly file: ReceivedFile; readonly at: number }>()

  async function assembleOnce(upload: ResumableUpload, context: Request['context']): Promise<ReceivedFile> {
    for (const [id, { at }] of assembled) if (deps.now() - at >= limits.abandonedAfterMs / 2) assembled.delete(id)
    const before = assembled.get(upload.id)
    if (before !== undefined) return before.file
    const file = await assemble(deps, limits, upload, context)
    assembled.set(upload.id, { file, at: deps.now() })
    return file
  }

  return {
    complete: async (upload, request) => {
      const { context, requestId, log, raw } = request
      const quota = { bytes: upload.length, uploadId: upload.id }
      await assertQuota(deps, context, quota, limits.tenantQuotaBytes)
      const file = await assembleOnce(upload, context)
      const named = upload.details.test_procedures ?? []
      const { addresses, ids } = await openTestProcedures(deps.universe, { context, requestId }, named)
      const details = { ...upload.details, test_procedures: [...addresses] }
      const evidence = { files: [file], details, procedureIds: ids, uploadId: upload.id, context, requestId }
      try {
        const { answer: jws, cleanUp: tidy } = await record(
          deps,
          evidence,
          limits.tenantQuotaBytes,
          async (tx, [receipt]) => {
            if (receipt === undefined || !(await completeUpload(tx, upload.id, receipt.jws))) {
              throw problem('conflict', { detail: 'Another request completed the upload. Read its state with HEAD.' })
            }
            assertAwaited(raw)
            return receipt.jws
          },
        )
        assembled.delete(upload.id)
        warnOfQuarantine(log, requestId, [file])
        await finishRecording(deps, async () => {
          await tidy()
          await deps.partials.remove(context.tenantId, upload.id)
        })
        return jws
      } catch (error) {
        const isOvertaken = error instanceof ProblemError && error.code === 'conflict'
        const jws = isOvertaken ? await receiptOf(deps, context, upload.id) : undefined
        if (jws === undefined) throw error
        assembled.delete(upload.id)
        return jws
      }
    },
  }
}

async function assemble(
  { db, blobs, partials, scanner }: Parts,
  { stallMs, allowedTypes }: Limits,
  upload: ResumableUpload,
  context: Request['context'],
): Promise<ReceivedFile> {
  const { tenantId } = context
  const { fileName, contentType } = upload
  const pieces = await reportLookupFailure(
    async () => await db.read(context, async (tx) => await listPieces(tx, upload.id)),
  )
  const incoming = await blobs.openIncoming(tenantId)
  try {
    const declared = { contentType, contentLength: undefined, sha256: upload.details.sha256?.[0] }
    const maxBytes = upload.length
    const limits = { maxBytes, stallMs, isInTime: () => true, scanner, allowedTypes }
    const body = await receiveBody(
      // Counts chunks; the default would buffer sixteen.
      Readable.from(partials.read(tenantId, upload.id, pieces), { highWaterMark: 1 }),
      incoming,
      declared,
      limits,
    )
    if (body.sizeBytes !== upload.length) throw new Error('the store lacks pieces of the upload')
    return { fileName, contentType, body, blob: await incoming.settle(tenantId, body.sha256) }
  } finally {
    await incoming.discard()
  }
}

async function receiptOf({ db }: Parts, context: Request['context'], id: string): Promise<string | undefined> {
  return await reportLookupFailure(async () => await db.read(context, async (tx) => await findReceipt(tx, id)))
}
