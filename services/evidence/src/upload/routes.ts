import { type Receipt, uploadEvidence } from '@postern/contracts'
import { type App, type Keeping, type RequestInfo, contractRoute } from '@postern/service-kit'
import { parseAssertion } from '@postern/signed-context'
import { type SettlingBlob, isNoRoom } from '../blob/blob-store.ts'
import type { Config } from '../config.ts'
import type { Deps } from '../deps.ts'
import { type ReceiveLimits, type ReceivedBody, discardRest, receiveBody } from './receive.ts'
import { noRoom, notRecorded, refused } from './refusal.ts'
import { type DeclaredUpload, formatReference, judgeHead } from './rules.ts'
import { settleLeftovers } from './settle.ts'
import { type Actor, insertFile, lockBlob, recordFailure, takeNumber } from './store.ts'

/** Takes evidence: the bytes to the blob directory, what they are to the database, the proof to the sender. */
export function uploadRoutes(
  app: App,
  deps: Pick<Deps, 'db' | 'blobs' | 'receipts' | 'now'>,
  { maxFileBytes, stallMs, abandonedAfterMs }: Pick<Config, 'maxFileBytes' | 'stallMs' | 'abandonedAfterMs'>,
): void {
  const { blobs, now } = deps
  contractRoute(app, uploadEvidence, async ({ query, context, requestId, raw, answer, log, keep }) => {
    answer.header('cache-control', 'no-store')
    const head = judgeHead(
      {
        fileName: query.file_name,
        contentType: raw.headers['content-type'],
        contentLength: raw.headers['content-length'],
        contentEncoding: raw.headers['content-encoding'],
        contentDigest: headerOf(raw.headers, 'content-digest'),
      },
      maxFileBytes,
    )
    if (!head.accepted) {
      discardRest(raw.body)
      throw refused(head.refusal)
    }
    const limits = { maxBytes: maxFileBytes, stallMs, isInTime: () => now() < recordableUntil(context) }
    const { body, blob } = await storeBytes(deps, context, raw.body, head.declared, limits)
    const upload: Upload = {
      body,
      blob,
      declared: head.declared,
      fileName: query.file_name,
      testProcedures: query.test_procedure ?? [],
      context,
      requestId,
      keep,
    }
    const receipt = await record(deps, upload)
    await blobs.finish(blob)
    await settleLeftovers(deps, context, now() - abandonedAfterMs, log)
    return receipt
  })
}

interface Upload {
  readonly body: ReceivedBody
  readonly blob: SettlingBlob
  readonly declared: DeclaredUpload
  readonly fileName: string
  readonly testProcedures: readonly string[]
  readonly context: RequestInfo['context']
  readonly requestId: string
  readonly keep: Keeping['keep']
}

/** Gets the bytes onto the disk, whole, judged and durable; nothing stays of what is refused or breaks off. */
async function storeBytes(
  { blobs }: Pick<Deps, 'blobs'>,
  context: RequestInfo['context'],
  stream: unknown,
  declared: DeclaredUpload,
  limits: ReceiveLimits,
): Promise<{ readonly body: ReceivedBody; readonly blob: SettlingBlob }> {
  try {
    const incoming = await blobs.openIncoming()
    try {
      const body = await receiveBody(stream, incoming, declared, limits)
      return { body, blob: await incoming.settle(context.tenantId, body.sha256) }
    } finally {
      await incoming.discard()
    }
  } catch (error) {
    throw isNoRoom(error) ? noRoom(error) : error
  }
}

/**
 * Puts the blob in its place and records it, in one transaction under the lock of the blob. The receipt is signed before
 * the commit and leaves after it: there is no receipt without a row, and no row without bytes. When this fails, or its
 * outcome is unknown, the settling entry stays, and `settleLeftovers` finds out.
 */
async function record(
  { db, blobs, receipts }: Pick<Deps, 'db' | 'blobs' | 'receipts'>,
  upload: Upload,
): Promise<Receipt> {
  const { body, blob, declared, fileName, testProcedures, context, requestId, keep } = upload
  try {
    return await db.write(context, async (tx) => {
      await lockBlob(tx, body.sha256)
      await blobs.place(blob)
      const file = await takeNumber(tx)
      const receipt = await receipts.sign({
        id: file.id,
        reference: formatReference(file.year, file.number),
        file_name: fileName,
        content_type: declared.contentType,
        detected_content_type: body.detected,
        size_bytes: body.sizeBytes,
        sha256: body.sha256,
        received_at: file.receivedAt.toISOString(),
        test_procedures: [...testProcedures],
        scan: 'not_configured',
      })
      await insertFile(tx, receipt, actorOf(context), requestId)
      return await keep(tx, receipt)
    })
  } catch (error) {
    throw isNoRoom(error) ? noRoom(error) : notRecorded(recordFailure(error), error)
  }
}

/** Until when PostgreSQL believes that the request is for its tenant, in milliseconds since the epoch. */
function recordableUntil({ assertion }: RequestInfo['context']): number {
  return (parseAssertion(assertion)?.expiresAt ?? 0) * 1000
}

function actorOf({ kind, id, label }: RequestInfo['context']): Actor {
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}

function headerOf(headers: Readonly<Record<string, string | string[] | undefined>>, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value.join(', ') : value
}
