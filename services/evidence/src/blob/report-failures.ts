import { ProblemError, problem } from '@postern/service-kit'
import { type BlobStore, type IncomingBlob, codeOf } from './blob-store.ts'
import type { Stores } from './open-stores.ts'
import type { PartialStore, PartialWriter } from './partial-store.ts'
import { storeFullProblem } from './store-full.ts'

const fullCodes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])
const brokenCodes: ReadonlySet<unknown> = new Set(['EROFS', 'EIO'])

/** Wraps the stores so that failures to write are reported, full volumes are 507, and broken or read-only ones 503. */
export function reportFailures({ blobs, partials, close }: Stores, onFailure: (error: unknown) => void): Stores {
  const reporting = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      throw reportFailure(error, onFailure)
    }
  }
  return { blobs: reportBlobs(blobs, reporting), partials: reportPartials(partials, reporting), close }
}

type Reporting = <T>(work: Promise<T>) => Promise<T>

function reportFailure(error: unknown, onFailure: (error: unknown) => void): unknown {
  if (error instanceof ProblemError) {
    if (error.code === 'insufficient_storage') onFailure(error)
    return error
  }
  const code = codeOf(error)
  const isFull = fullCodes.has(code)
  if (!isFull && !brokenCodes.has(code)) return error
  // EFBIG is the limit of one file.
  if (code !== 'EFBIG') onFailure(error)
  if (isFull) return storeFullProblem(error)
  return problem('service_unavailable', {
    detail: 'The evidence store does not accept files at the moment. There is no receipt; send the file again later.',
    retryAfterSeconds: 30,
    cause: error,
  })
}

function reportBlobs(blobs: BlobStore, reporting: Reporting): BlobStore {
  return {
    ...blobs,
    openIncoming: async (tenantId) => reportIncoming(await reporting(blobs.openIncoming(tenantId)), reporting),
    putName: async (blob) => await reporting(blobs.putName(blob)),
    moveIntoPlace: async (blob) => await reporting(blobs.moveIntoPlace(blob)),
  }
}

function reportIncoming(incoming: IncomingBlob, reporting: Reporting): IncomingBlob {
  return {
    write: async (chunk) => await reporting(incoming.write(chunk)),
    settle: async (tenantId, sha256) => await reporting(incoming.settle(tenantId, sha256)),
    discard: async () => await incoming.discard(),
  }
}

function reportPartials(partials: PartialStore, reporting: Reporting): PartialStore {
  return {
    ...partials,
    append: async (tenantId, id, turn) => reportWriter(await reporting(partials.append(tenantId, id, turn)), reporting),
    seal: async (tenantId, id, turn) => await reporting(partials.seal(tenantId, id, turn)),
  }
}

function reportWriter(writer: PartialWriter, reporting: Reporting): PartialWriter {
  return {
    write: async (chunk, signal) => await reporting(writer.write(chunk, signal)),
    rollBack: async () => await writer.rollBack(),
    close: async () => await reporting(writer.close()),
  }
}
