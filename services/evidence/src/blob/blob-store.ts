import type { Readable } from 'node:stream'

export interface BlobStore {
  readonly isRemote: boolean
  /** End it with `settle` or `discard`. */
  openIncoming(tenantId: string): Promise<IncomingBlob>
  /**
   * Makes settled bytes in a bucket findable by their hash. Call it before the transaction, because it uses the network.
   */
  putName(blob: PendingBlob): Promise<void>
  /** Links settled bytes in a directory to their place, durably. Call it under the blob's lock, after `putName`. */
  moveIntoPlace(blob: PendingBlob): Promise<void>
  /** Removes bytes in a directory from their place. Call it under the blob's lock, then `finish`. */
  remove(blob: PendingBlob): Promise<void>
  /** Ends a settling entry. Call it after the transaction. */
  finish(blob: PendingBlob, outcome: BlobOutcome): Promise<void>
  /** Deletes the bytes, name and entry of an upload that was certainly not recorded. */
  discardPending?(blob: PendingBlob): Promise<void>
  /**
   * Yields the copies of a hash as pending blobs, except those of uploads since `olderThan` (epoch ms). Finish each before
   * the next.
   */
  reopen(blob: Pick<PendingBlob, 'tenantId' | 'sha256'>, olderThan: number): AsyncIterable<PendingBlob>
  read(blob: Pick<PendingBlob, 'tenantId' | 'sha256'>): Promise<Readable>
  /** Lists blobs that settled before `olderThan` (epoch ms). */
  listPending(tenantId: string, olderThan: number): Promise<PendingBlob[]>
  listTenantsWithPending(olderThan: number): Promise<ReadonlySet<string>>
  /** Deletes incoming files last written before `olderThan` (epoch ms). */
  sweepIncoming(olderThan: number): Promise<number>
  /** Epoch ms. */
  time(): Promise<number>
  assertWritable(): Promise<void>
}

/**
 * `recorded`: the first row of the hash names these bytes. `spare`: another upload's row named the hash before. `kept`: a
 * row names the hash, perhaps of these bytes. `gone`: no row names it.
 */
export type BlobOutcome = 'recorded' | 'kept' | 'spare' | 'gone'

export interface IncomingBlob {
  /** Appends a chunk; call it sequentially. Resolves when the chunk may be reused. */
  write(chunk: Uint8Array): Promise<void>
  /** Makes the bytes durable under their hash. */
  settle(tenantId: string, sha256: string): Promise<PendingBlob>
  /** Deletes the bytes. Has no effect after `settle`. */
  discard(): Promise<void>
}

export interface PendingBlob {
  readonly tenantId: string
  readonly sha256: string
  readonly entry: string
}

// Directory names are trusted, but a mistake here could leave the tenant's directory.
export const tenantPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
export const hashPattern = /^[0-9a-f]{64}$/
export const entryPattern = /^(?<sha256>[0-9a-f]{64})\.[0-9a-f]{32}$/

/** Yields the items of all names, and throws at the end if one failed. */
export async function* listOfEach<Name extends string, Found>(
  names: Iterable<Name>,
  of: (name: Name) => AsyncIterable<Found>,
): AsyncGenerator<Found> {
  const failed: { readonly name: Name; readonly cause: unknown }[] = []
  for (const name of names) {
    try {
      yield* of(name)
    } catch (cause) {
      failed.push({ name, cause })
    }
  }
  const [first] = failed
  if (first !== undefined) {
    throw new Error(`${failed.length} folders could not be listed, first ${first.name}`, { cause: first.cause })
  }
}

export function parseName(name: string, pattern: RegExp): string {
  if (!pattern.test(name)) throw new Error('the blob store got an invalid name')
  return name
}

export function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT' || (error instanceof Error && error.name === 'NoSuchKey')
}

export function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
