import type { EvidenceDetails, Receipt } from '@postern/contracts'
import { ProblemError, type RequestInfo } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { PendingBlob } from '../blob/blob-store.ts'
import { eventsOfFile } from '../custody/rules.ts'
import { insertCustodyEvents } from '../custody/store.ts'
import { actorOf } from '../actor.ts'
import type { Deps } from '../deps.ts'
import { recordingProblem } from './refusal.ts'
import { consumeReservation, releaseReservation, reserveQuota } from './quota.ts'
import { formatReference } from './rules.ts'
import { describeNewFile, insertFile, isBlobRecorded, lockBlob, recordFailure, allocateNumbers } from './store.ts'
import type { ReceivedFile } from './parse-upload.ts'

const maxFailures = 3

export interface NewEvidence {
  readonly files: readonly ReceivedFile[]
  readonly details: EvidenceDetails
  readonly procedureIds: readonly string[]
  readonly replaces?: { readonly id: string; readonly revision: number }
  readonly uploadId?: string
  readonly context: RequestInfo['context']
  readonly requestId: string
}

export interface RecordedEvidence<T> {
  readonly answer: T
  cleanUp(): Promise<void>
}

/**
 * Records files in one transaction under the locks of their hashes. Receipts are signed before the commit and sent after
 * it. After an unknown outcome, the settling entries stay for the sweep.
 */
export async function record<T>(
  { db, blobs, receipts, cleanup }: Pick<Deps, 'db' | 'blobs' | 'receipts' | 'cleanup'>,
  { files, details, procedureIds, replaces, uploadId, context, requestId }: NewEvidence,
  tenantQuotaBytes: number | undefined,
  keep: (tx: Tx, receipts: readonly Receipt[]) => Promise<T>,
): Promise<RecordedEvidence<T>> {
  const totalBytes = files.reduce((sum, { body }) => sum + body.sizeBytes, 0)
  const outcomes = new Map<PendingBlob, 'recorded' | 'spare'>()
  let mayBeRecorded = false
  let reservationId: string | undefined
  try {
    await Promise.all(files.map(async ({ blob }) => await blobs.putName(blob)))
    const quota = { bytes: totalBytes, files: files.length, uploadId }
    const reserved = await reserveQuota({ db }, context, quota, tenantQuotaBytes)
    reservationId = reserved
    const answer = await db.write(context, async (tx) => {
      // First, because the transaction runs again if none is free.
      const numbers = await allocateNumbers(tx, files.length)
      await consumeReservation(tx, reserved)
      // A fixed order prevents deadlocks between uploads of equal files.
      const digests = [...new Set(files.map(({ body }) => body.sha256))].toSorted()
      const named = new Set<string>()
      for (const sha256 of digests) {
        await lockBlob(tx, sha256)
        if (await isBlobRecorded(tx, sha256)) named.add(sha256)
      }
      for (const { blob } of files) {
        await blobs.moveIntoPlace(blob)
        outcomes.set(blob, named.has(blob.sha256) ? 'spare' : 'recorded')
        named.add(blob.sha256)
      }
      const signed: Receipt[] = []
      for (const [index, { fileName, contentType, body }] of files.entries()) {
        const { id, receivedAt, retentionUntil } = await describeNewFile(tx)
        const reference = numbers[index]
        if (reference === undefined) throw new Error('the database gave a file no number')
        const { scan } = body
        const isQuarantined = scan.result === 'infected'
        const attachTo = isQuarantined ? [] : procedureIds
        const receipt = await receipts.sign({
          id,
          reference: formatReference(reference.year, reference.number),
          file_name: fileName,
          content_type: contentType,
          detected_content_type: body.detected,
          size_bytes: body.sizeBytes,
          sha256: body.sha256,
          received_at: receivedAt.toISOString(),
          evidence_date: details.evidence_date ?? receivedAt.toISOString().slice(0, 10),
          test_procedures: isQuarantined ? [] : [...(details.test_procedures ?? [])],
          version_of: replaces?.id ?? null,
          revision: replaces === undefined ? 1 : replaces.revision + 1,
          status: isQuarantined ? 'quarantined' : 'accepted',
          scan: scan.result,
          malware: isQuarantined ? scan.malware : null,
          retention_until: retentionUntil,
        })
        const actor = actorOf(context)
        await insertFile(tx, receipt, { details, procedureIds: attachTo }, actor)
        const by = { actor, requestId, at: receipt.received_at }
        await insertCustodyEvents(tx, { fileId: id, uploadId }, eventsOfFile(receipt, scan, attachTo), by)
        signed.push(receipt)
      }
      const kept = await keep(tx, signed)
      mayBeRecorded = true
      return kept
    })
    return {
      answer,
      cleanUp: async () => {
        const failures: unknown[] = []
        // The first of equal files stays, so order matters.
        for (const [blob, outcome] of outcomes) {
          await blobs.finish(blob, outcome).catch((error: unknown) => failures.push(error))
          if (failures.length === maxFailures) break
        }
        if (failures.length > 0) throw new AggregateError(failures, 'the store could not be cleaned up completely')
      },
    }
  } catch (error) {
    // Assembled resumable uploads stay for the next request.
    if (outcomes.size > 0 && !mayBeRecorded && uploadId === undefined) await discardUpload()
    if (!mayBeRecorded) await releaseReservation({ db }, context, reservationId)
    if (error instanceof ProblemError) throw error
    throw recordingProblem(recordFailure(error), error)
  }

  async function discardUpload(): Promise<void> {
    await cleanup.run(async () => {
      for (const { blob } of files) await blobs.discardPending?.(blob)
    })
  }
}

/** Does not wait for a bucket, because the duration would reveal whether the tenant had the bytes. */
export async function finishRecording(
  { blobs, cleanup }: Pick<Deps, 'blobs' | 'cleanup'>,
  tidy: () => Promise<void>,
): Promise<void> {
  const done = cleanup.run(tidy)
  if (!blobs.isRemote) await done
}
