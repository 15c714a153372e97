import { createHash } from 'node:crypto'
import type { EvidenceFile } from '@postern/contracts'
import { ProblemError, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { type FoundFile, lockFile } from './store.ts'

export async function fileToDecide(tx: Tx, id: string): Promise<FoundFile> {
  const found = await lockFile(tx, id)
  if (found === undefined) throw problem('not_found')
  return found
}

/** A hash of the file, because decisions and attachments change it without a version number. */
export function etagOf(file: EvidenceFile): string {
  return `"${createHash('sha256').update(JSON.stringify(file)).digest('base64url').slice(0, 22)}"`
}

/** If the store or the database is unavailable, the problem says that the file is purged anyway. */
export async function deletePurgedBytes(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'service_unavailable') throw error
    throw problem('service_unavailable', {
      detail: 'The file is purged, but not all of its bytes are deleted yet. Send the request again.',
      retryAfterSeconds: 5,
      cause: error,
    })
  }
}
