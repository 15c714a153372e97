import { createHash } from 'node:crypto'
import { type RequestInfo, problem } from '@postern/service-kit'
import type { Config } from '../config.ts'
import type { Deps } from '../deps.ts'
import { headBytes, judgeBytes } from '../upload/file-kind.ts'
import { type Scan, type ScanOutcome, type Scanner, ScannerAway } from '../scan/scanner.ts'
import { warnOfQuarantine } from '../scan/warn.ts'
import { openTestProcedures } from '../test-procedure/check.ts'
import { record } from '../upload/record.ts'
import { refused, scannerAway } from '../upload/refusal.ts'
import { assertRoom } from '../upload/room.ts'
import { settleLeftovers } from '../upload/settle.ts'
import { type ResumableUpload, completeUpload } from './store.ts'

/**
 * Records an upload whose bytes are all there, and gives the receipt's JWS. Until that has worked the bytes stay where
 * they are, and it can be tried again; what can never be recorded goes at once.
 */
export async function complete(
  deps: Pick<Deps, 'db' | 'blobs' | 'partials' | 'receipts' | 'scanner' | 'universe' | 'now'>,
  { tenantQuotaBytes, abandonedAfterMs }: Pick<Config, 'tenantQuotaBytes' | 'abandonedAfterMs'>,
  upload: ResumableUpload,
  { context, requestId, log }: Pick<RequestInfo, 'context' | 'requestId' | 'log'>,
): Promise<string> {
  const { blobs, partials } = deps
  const { tenantId } = context
  const { sha256, head, scan } = await look(partials.read(tenantId, upload.id), deps.scanner)
  const kind = await judgeBytes(head)
  if (!kind.accepted) throw refused({ why: 'kind', reason: kind.reason })
  const [expected] = upload.details.sha256 ?? []
  if (expected !== undefined && expected !== sha256) throw refused({ why: 'digest_mismatch' })
  await assertRoom(deps, context, upload.length, tenantQuotaBytes)
  const named = upload.details.test_procedures ?? []
  const { addresses, ids: procedureIds } = await openTestProcedures(deps.universe, { context, requestId }, named)
  const blob = await blobs.adopt(partials.pathOf(tenantId, upload.id), tenantId, sha256)
  const body = { sizeBytes: upload.length, sha256, detected: kind.detected, scan }
  const files = [{ fileName: upload.fileName, contentType: upload.contentType, body, blob }]
  const jws = await record(
    deps,
    {
      files,
      details: { ...upload.details, test_procedures: [...addresses] },
      procedureIds,
      uploadId: upload.id,
      context,
      requestId,
    },
    tenantQuotaBytes,
    async (tx, [receipt]) => {
      if (receipt === undefined || !(await completeUpload(tx, upload.id, receipt.jws))) {
        throw problem('conflict', { detail: 'The upload was completed at the same time. Ask with HEAD.' })
      }
      return receipt.jws
    },
  )
  await blobs.finish(blob)
  warnOfQuarantine(log, requestId, files)
  await partials.remove(tenantId, upload.id)
  await settleLeftovers(deps, context, deps.now() - abandonedAfterMs, log)
  return jws
}

/** Reads the whole file once: its hash, the first bytes by which it is judged, and what the scanner makes of it. */
async function look(
  file: NodeJS.ReadableStream,
  scanner: Scanner,
): Promise<{ readonly sha256: string; readonly head: Buffer; readonly scan: ScanOutcome }> {
  let scan: Scan | undefined
  try {
    scan = await scanner.begin()
    const hash = createHash('sha256')
    const first: Buffer[] = []
    let length = 0
    for await (const chunk of file) {
      if (!Buffer.isBuffer(chunk)) throw new TypeError('a file must be read as bytes')
      hash.update(chunk)
      if (length < headBytes) first.push(chunk.subarray(0, headBytes - length))
      length += chunk.length
      await scan.write(chunk)
    }
    return { sha256: hash.digest('hex'), head: Buffer.concat(first), scan: await scan.finish() }
  } catch (error) {
    throw error instanceof ScannerAway ? scannerAway(error) : error
  } finally {
    scan?.abandon()
  }
}
