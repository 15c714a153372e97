import type { EvidenceDetails, Receipt } from '@postern/contracts'
import { ProblemError, type RequestInfo } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { type SettlingBlob, isNoRoom } from '../blob/blob-store.ts'
import { eventsOfFile } from '../custody/rules.ts'
import { insertCustodyEvents } from '../custody/store.ts'
import type { Deps } from '../deps.ts'
import { noRoom, notRecorded } from './refusal.ts'
import { consumeReservation, releaseReservation, reserveQuota } from './quota.ts'
import { formatReference } from './rules.ts'
import { describeNewFile, insertFile, isBlobRecorded, lockBlob, recordFailure, takeNumbers } from './store.ts'
import type { Actor } from './store.ts'
import type { ReceivedFile } from './parse-upload.ts'

/** After so many that the store fails, more likely it fails all. */
const maxFailures = 3

export interface NewEvidence {
  readonly files: readonly ReceivedFile[]
  readonly details: EvidenceDetails
  /** Ids of the test procedures that the details name, each once. */
  readonly procedureIds: readonly string[]
  /** The file that this one replaces. */
  readonly replaces?: { readonly id: string; readonly revision: number }
  /** The resumable upload by which it came. */
  readonly uploadId?: string
  readonly context: RequestInfo['context']
  readonly requestId: string
}

export interface Recorded<T> {
  readonly answer: T
  /** Takes away what is needed no longer. Where it rejects, that is decided over later, and nothing of the answer is less true. */
  tidy(): Promise<void>
}

/**
 * Puts blobs in their place and records them, in one transaction under the locks of the blobs: all files, or none. The
 * receipts are signed before the commit and leave after it: there is no receipt without a row, and no row without bytes.
 * When this fails, or its outcome is unknown, the settling entries stay, and the sweep finds out. Whatever goes over a network
 * is done before the transaction or after it, which holds a connection to the database and locks.
 *
 * `keep` is called in the transaction, last.
 */
export async function record<T>(
  { db, blobs, receipts, afterwards }: Pick<Deps, 'db' | 'blobs' | 'receipts' | 'afterwards'>,
  { files, details, procedureIds, replaces, uploadId, context, requestId }: NewEvidence,
  tenantQuotaBytes: number | undefined,
  keep: (tx: Tx, receipts: readonly Receipt[]) => Promise<T>,
): Promise<Recorded<T>> {
  const totalBytes = files.reduce((sum, { body }) => sum + body.sizeBytes, 0)
  const outcomes = new Map<SettlingBlob, 'recorded' | 'spare'>()
  let mayBeRecorded = false
  let reservationId: string | undefined
  try {
    await Promise.all(files.map(async ({ blob }) => await blobs.offer(blob)))
    const room = { bytes: totalBytes, files: files.length, uploadId }
    const reserved = await reserveQuota({ db }, context, room, tenantQuotaBytes)
    reservationId = reserved
    const answer = await db.write(context, async (tx) => {
      // First: where none is free the transaction runs again.
      const numbers = await takeNumbers(tx, files.length)
      await consumeReservation(tx, reserved)
      // In one order everywhere: two uploads of the same files must not wait for each other.
      const digests = [...new Set(files.map(({ body }) => body.sha256))].toSorted()
      const named = new Set<string>()
      for (const sha256 of digests) {
        await lockBlob(tx, sha256)
        if (await isBlobRecorded(tx, sha256)) named.add(sha256)
      }
      for (const { blob } of files) {
        await blobs.place(blob)
        // The first keeps its own bytes, whatever else is in the store: perhaps what nobody will ever record.
        outcomes.set(blob, named.has(blob.sha256) ? 'spare' : 'recorded')
        named.add(blob.sha256)
      }
      const signed: Receipt[] = []
      for (const [index, { fileName, contentType, body }] of files.entries()) {
        const { id, receivedAt, retentionUntil } = await describeNewFile(tx)
        const reference = numbers[index]
        if (reference === undefined) throw new Error('a file has no number')
        const { scan } = body
        // Evidence of nothing, until somebody has looked at it: what carries malware is kept and attached to nothing.
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
      tidy: async () => {
        const failures: unknown[] = []
        // One after the other: of files with the same bytes the first stays. One that fails keeps none of the others waiting.
        for (const [blob, outcome] of outcomes) {
          await blobs.finish(blob, outcome).catch((error: unknown) => failures.push(error))
          if (failures.length === maxFailures) break
        }
        if (failures.length > 0) throw new AggregateError(failures, 'not all of it could be taken away')
      },
    }
  } catch (error) {
    // Sent again it comes as other objects: these would be a copy that nobody needs. What was put together of a resumable
    // upload is what the next request goes on with.
    if (outcomes.size > 0 && !mayBeRecorded && uploadId === undefined) await abandon()
    if (!mayBeRecorded) await releaseReservation({ db }, context, reservationId)
    if (error instanceof ProblemError) throw error
    throw isNoRoom(error) ? noRoom(error) : notRecorded(recordFailure(error), error)
  }

  async function abandon(): Promise<void> {
    await afterwards.run(async () => {
      for (const { blob } of files) await blobs.abandon?.(blob)
    })
  }
}

/**
 * Does what a recording leaves to do. In a bucket nobody waits for it: how long it takes says whether the tenant had the bytes
 * before, which a key that may only write is not told.
 */
export async function tidied(
  { blobs, afterwards }: Pick<Deps, 'blobs' | 'afterwards'>,
  tidy: () => Promise<void>,
): Promise<void> {
  const done = afterwards.run(tidy)
  if (!blobs.isRemote) await done
}

export type { Actor }

/** Who acts, as rows keep it. */
export function actorOf({ kind, id, label }: RequestInfo['context']): Actor {
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}
