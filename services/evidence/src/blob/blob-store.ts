import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { constants, createReadStream } from 'node:fs'
import { type FileHandle, access, link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'

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

/** Opens or creates a private blob directory. README.md explains its folders. */
export async function openBlobStore(directory: string): Promise<BlobStore> {
  const root = resolve(directory)
  const incoming = join(root, 'incoming')
  const settling = join(root, 'settling')
  const blobs = join(root, 'blobs')
  const probes = join(root, 'probe')
  for (const path of [root, incoming, settling, blobs, probes]) await mkdir(path, { recursive: true, mode: 0o700 })

  const settlingPath = ({ tenantId, entry }: PendingBlob) =>
    join(settling, parseName(tenantId, tenantPattern), parseName(entry, entryPattern))
  const blobPath = ({ tenantId, sha256 }: Pick<PendingBlob, 'tenantId' | 'sha256'>) =>
    join(blobs, parseName(tenantId, tenantPattern), parseName(sha256, hashPattern).slice(0, 2), sha256)

  return {
    isRemote: false,
    openIncoming: async () => {
      const path = join(incoming, randomBytes(16).toString('hex'))
      return createIncomingBlob(await open(path, 'wx', 0o600), path, settling)
    },
    putName: async (blob) => void settlingPath(blob),
    moveIntoPlace: async (blob) => {
      const path = blobPath(blob)
      await makeDurably(dirname(path), blobs)
      try {
        await link(settlingPath(blob), path)
      } catch (error) {
        if (codeOf(error) !== 'EEXIST') throw error
        // The existing file may be damaged, so the newly hashed one replaces it.
        const fresh = join(incoming, randomBytes(16).toString('hex'))
        await link(settlingPath(blob), fresh)
        await rename(fresh, path)
        // A rename keeps two names of one file, if it was placed before.
        await rm(fresh, { force: true })
      }
      await syncDirectory(dirname(path))
    },
    finish: async (blob) => await rm(settlingPath(blob), { force: true }),
    remove: async (blob) => await rm(blobPath(blob), { force: true }),
    reopen: reopenOnce,
    read: async (blob) => {
      const path = blobPath(blob)
      await access(path, constants.R_OK)
      return createReadStream(path)
    },
    listPending: async (tenantId, olderThan) => {
      const directoryPath = join(settling, parseName(tenantId, tenantPattern))
      const old = await listOlderThan(directoryPath, olderThan)
      return old.flatMap((entry) => {
        const sha256 = entryPattern.exec(entry)?.groups?.['sha256']
        return sha256 === undefined ? [] : [{ tenantId, sha256, entry }]
      })
    },
    listTenantsWithPending: async (olderThan) => {
      const tenants = new Set<string>()
      for (const tenant of await tenantsIn(settling)) {
        // A tenant that cannot be listed counts, so that the sweep reports it.
        const old = await listOlderThan(join(settling, tenant), olderThan).catch(() => undefined)
        if (old === undefined || old.length > 0) tenants.add(tenant)
      }
      return tenants
    },
    sweepIncoming: async (olderThan) => {
      const old = await listOlderThan(incoming, olderThan)
      for (const entry of old) await rm(join(incoming, entry), { force: true })
      for (const entry of await listOlderThan(probes, olderThan)) await rm(join(probes, entry), { force: true })
      return old.length
    },
    time: async () => await Promise.resolve(Date.now()),
    assertWritable: async () => {
      await access(incoming, constants.W_OK | constants.X_OK)
      await writeProbe(join(probes, randomBytes(16).toString('hex')))
    },
  }
}

async function writeProbe(path: string): Promise<void> {
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(randomBytes(probeBytes))
    await file.sync()
  } finally {
    await file.close()
    await rm(path, { force: true })
  }
}

/** The most bytes of an upload that wait in memory for the disk. */
const bufferedBytes = 1024 * 1024

const syncEveryBytes = 32 * 1024 * 1024

/** Fewer bytes could fit into the inode, even on a full disk. */
const probeBytes = 4096

function createIncomingBlob(file: FileHandle, path: string, settling: string): IncomingBlob {
  const sink = file.createWriteStream({ autoClose: false, highWaterMark: bufferedBytes })
  sink.on('error', () => undefined)
  let unsyncedBytes = 0
  let syncing: Promise<void> | undefined
  const syncBehind = async () => {
    unsyncedBytes = 0
    // The kernel reports a failed write only once, so the last sync could succeed.
    await file.datasync().catch((error: Error) => void sink.destroy(error))
    syncing = undefined
  }
  const close = async () => {
    await syncing
    sink.destroy()
    await file.close()
  }
  return {
    write: async (chunk) => {
      if (sink.errored !== null) throw sink.errored
      if (!sink.write(chunk)) await once(sink, 'drain')
      unsyncedBytes += chunk.byteLength
      if (unsyncedBytes >= syncEveryBytes) syncing ??= syncBehind()
    },
    settle: async (tenantId, sha256) => {
      await syncing
      sink.end()
      await finished(sink)
      await file.sync()
      await close()
      const folder = join(settling, parseName(tenantId, tenantPattern))
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const entry = `${parseName(sha256, hashPattern)}.${randomBytes(16).toString('hex')}`
      await rename(path, join(folder, entry))
      // Durable before the blob, so that a crash cannot lose its entry.
      await syncDirectory(folder)
      await syncDirectory(settling)
      return { tenantId, sha256, entry }
    },
    discard: async () => {
      await close()
      await rm(path, { force: true })
    },
  }
}

async function* reopenOnce({
  tenantId,
  sha256,
}: Pick<PendingBlob, 'tenantId' | 'sha256'>): AsyncGenerator<PendingBlob> {
  yield { tenantId, sha256, entry: `${sha256}.${randomBytes(16).toString('hex')}` }
}

async function makeDurably(directory: string, root: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let path = dirname(directory); path.startsWith(root); path = dirname(path)) await syncDirectory(path)
}

export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** Lists files last written before `olderThan`. Returns an empty list if the directory is missing. */
export async function listOlderThan(directory: string, olderThan: number): Promise<string[]> {
  const old: string[] = []
  for (const name of await namesIn(directory)) {
    try {
      const { mtimeMs } = await stat(join(directory, name))
      if (mtimeMs < olderThan) old.push(name)
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error
    }
  }
  return old
}

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

/** Lists tenants with entries in a directory and ignores other names. */
export async function tenantsIn(directory: string): Promise<string[]> {
  return (await namesIn(directory)).filter((name) => tenantPattern.test(name))
}

export async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error
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
