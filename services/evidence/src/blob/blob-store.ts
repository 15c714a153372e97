import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { constants, createReadStream } from 'node:fs'
import { type FileHandle, access, link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'

/** Where the bytes are: a directory (below) or a bucket (`s3-blob-store.ts`). What they promise is the same. */
export interface BlobStore {
  /** Whether it is behind a network, where what it does takes a time that a sender can tell. */
  readonly isRemote: boolean
  /** Opens an empty file for bytes that arrive. It ends with `settle` or `discard`, never with neither. */
  openIncoming(tenantId: string): Promise<IncomingBlob>
  /** Does of `place` what goes over a network: to be called before the transaction, which waits for no store. Harmless when repeated. */
  offer(blob: SettlingBlob): Promise<void>
  /**
   * Puts settled bytes in their place, durably; where the tenant has the same bytes already, that may be their place. To be
   * called under the lock of the blob, after `offer`.
   */
  place(blob: SettlingBlob): Promise<void>
  /** Takes a blob that no row names out of its place. To be called under the lock of the blob, and `finish` after it. */
  remove(blob: SettlingBlob): Promise<void>
  /** Does what the database has decided, and takes the settling entry away. To be called after the transaction. */
  finish(blob: SettlingBlob, outcome: BlobOutcome): Promise<void>
  /** Takes away what is certain never to be recorded. Only where that needs no lock; else it is decided over later. */
  abandon?(blob: SettlingBlob): Promise<void>
  /**
   * All that a tenant has under a hash and that no upload is bringing now, as something to be decided over; one after the
   * other, each to be finished before the next is asked for. An upload that settled before `olderThan` (milliseconds since
   * the epoch) brings nothing now.
   */
  reopen(blob: Pick<SettlingBlob, 'tenantId' | 'sha256'>, olderThan: number): AsyncIterable<SettlingBlob>
  /** The bytes that a tenant has under a hash, from their place. */
  read(blob: Pick<SettlingBlob, 'tenantId' | 'sha256'>): Promise<Readable>
  /** Entries of a tenant whose upload ended, if it ended at all, before `olderThan` (milliseconds since the epoch). */
  listSettling(tenantId: string, olderThan: number): Promise<SettlingBlob[]>
  /** Tenants that have such entries. */
  listUnsettled(olderThan: number): Promise<ReadonlySet<string>>
  /** Deletes what stopped arriving before `olderThan` (milliseconds since the epoch); answers how many files. */
  sweepIncoming(olderThan: number): Promise<number>
  /** The store's own time, in milliseconds since the epoch, by which it says how old something is. Rejects when it does not say. */
  time(): Promise<number>
  /** Rejects when nothing could be stored now. */
  assertWritable(): Promise<void>
}

/**
 * What the database says of a blob: who has just placed it has recorded it; of what was left behind, a row names it; a row
 * names it, and so did one before; or none does.
 */
export type BlobOutcome = 'recorded' | 'kept' | 'spare' | 'gone'

export interface IncomingBlob {
  /** Appends a chunk, one call after the other. Resolves when the chunk is no longer needed. */
  write(chunk: Uint8Array): Promise<void>
  /** Makes the bytes durable and hands them to the tenant under their hash. */
  settle(tenantId: string, sha256: string): Promise<SettlingBlob>
  /** Deletes the bytes. Harmless when repeated and after `settle`. */
  discard(): Promise<void>
}

export interface SettlingBlob {
  readonly tenantId: string
  readonly sha256: string
  /** Name of the entry in the tenant's settling directory, different for every upload. */
  readonly entry: string
}

// Names of directories come from verified contexts and hashes of our own. They are checked all the same: a path is the
// one place where a slip would leave the tenant's directory.
export const tenantPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
export const hashPattern = /^[0-9a-f]{64}$/
export const entryPattern = /^(?<sha256>[0-9a-f]{64})\.[0-9a-f]{32}$/

/**
 * Opens a blob directory, made when absent, readable by this account alone. README.md beside this file says why the steps
 * are what they are; in short: `incoming/` holds what is still arriving, `settling/<tenant>/` what is whole but perhaps not
 * yet recorded, and `blobs/<tenant>/<first two digits>/<sha256>` what rows may name.
 */
export async function openBlobStore(directory: string): Promise<BlobStore> {
  const root = resolve(directory)
  const incoming = join(root, 'incoming')
  const settling = join(root, 'settling')
  const blobs = join(root, 'blobs')
  const probes = join(root, 'probe')
  for (const path of [root, incoming, settling, blobs, probes]) await mkdir(path, { recursive: true, mode: 0o700 })

  const settlingPath = ({ tenantId, entry }: SettlingBlob) =>
    join(settling, checked(tenantId, tenantPattern), checked(entry, entryPattern))
  const blobPath = ({ tenantId, sha256 }: Pick<SettlingBlob, 'tenantId' | 'sha256'>) =>
    join(blobs, checked(tenantId, tenantPattern), checked(sha256, hashPattern).slice(0, 2), sha256)

  return {
    isRemote: false,
    openIncoming: async () => {
      const path = join(incoming, randomBytes(16).toString('hex'))
      return incomingBlob(await open(path, 'wx', 0o600), path, settling)
    },
    offer: async (blob) => void settlingPath(blob),
    place: async (blob) => {
      const path = blobPath(blob)
      await makeDurably(dirname(path), blobs)
      try {
        await link(settlingPath(blob), path)
      } catch (error) {
        if (codeOf(error) !== 'EEXIST') throw error
        // What stands there may have been damaged since, and its sender has brought it again: what has just been hashed takes its place.
        const fresh = join(incoming, randomBytes(16).toString('hex'))
        await link(settlingPath(blob), fresh)
        await rename(fresh, path)
        // Two names of one file are both left by a rename: where this was placed before.
        await rm(fresh, { force: true })
      }
      await syncDirectory(dirname(path))
    },
    finish: async (blob) => await rm(settlingPath(blob), { force: true }),
    remove: async (blob) => await rm(blobPath(blob), { force: true }),
    reopen: soleBlob,
    read: async (blob) => {
      const path = blobPath(blob)
      await access(path, constants.R_OK)
      return createReadStream(path)
    },
    listSettling: async (tenantId, olderThan) => {
      const directoryPath = join(settling, checked(tenantId, tenantPattern))
      const old = await entriesOlderThan(directoryPath, olderThan)
      return old.flatMap((entry) => {
        const sha256 = entryPattern.exec(entry)?.groups?.['sha256']
        return sha256 === undefined ? [] : [{ tenantId, sha256, entry }]
      })
    },
    listUnsettled: async (olderThan) => {
      const tenants = new Set<string>()
      for (const tenant of await tenantsIn(settling)) {
        // One that cannot be read is among them: who lists its entries is told.
        const old = entriesOlderThan(join(settling, tenant), olderThan)
        if (await old.then(({ length }) => length > 0, Boolean)) tenants.add(tenant)
      }
      return tenants
    },
    sweepIncoming: async (olderThan) => {
      const old = await entriesOlderThan(incoming, olderThan)
      for (const entry of old) await rm(join(incoming, entry), { force: true })
      for (const entry of await entriesOlderThan(probes, olderThan)) await rm(join(probes, entry), { force: true })
      return old.length
    },
    // A file system has our clock; should it be another's that is behind, who settles or places bytes that are gone is told so.
    time: async () => await Promise.resolve(Date.now()),
    assertWritable: async () => {
      await access(incoming, constants.W_OK | constants.X_OK)
      await writeProbe(join(probes, randomBytes(16).toString('hex')))
    },
  }
}

/** Brings a small file to the disk and deletes it. Rights alone do not say whether the volume is full or broken. */
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

/** Bytes of an upload that wait in memory for a slow disk. Chunks that wait are written together. */
const bufferedBytes = 1024 * 1024

/** Files are synced in steps of so many bytes while they arrive, so that their end need not wait for all of them. */
const syncEveryBytes = 32 * 1024 * 1024

/** A block of most file systems: less may fit into an inode of a full one. */
const probeBytes = 4096

function incomingBlob(file: FileHandle, path: string, settling: string): IncomingBlob {
  // The handle stays open at the end of the stream, to be synced.
  const sink = file.createWriteStream({ autoClose: false, highWaterMark: bufferedBytes })
  // Whoever writes next is told.
  sink.on('error', () => undefined)
  let unsyncedBytes = 0
  let syncing: Promise<void> | undefined
  const syncBehind = async () => {
    unsyncedBytes = 0
    // The kernel reports a failure once, so the last sync might not see it.
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
      const folder = join(settling, checked(tenantId, tenantPattern))
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const entry = `${checked(sha256, hashPattern)}.${randomBytes(16).toString('hex')}`
      await rename(path, join(folder, entry))
      // Durable before the blob is: otherwise a crash could keep the blob and lose the entry by which it is found.
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

/** The blob of a hash, of which there is one: who asks for it again finds it without an entry. */
async function* soleBlob({
  tenantId,
  sha256,
}: Pick<SettlingBlob, 'tenantId' | 'sha256'>): AsyncGenerator<SettlingBlob> {
  yield { tenantId, sha256, entry: `${sha256}.${randomBytes(16).toString('hex')}` }
}

/** Makes a directory and its parents below `root`, and makes the new names durable. */
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

/** Names of files last written before `olderThan`; none where the directory does not exist. */
export async function entriesOlderThan(directory: string, olderThan: number): Promise<string[]> {
  const old: string[] = []
  for (const name of await namesIn(directory)) {
    try {
      const { mtimeMs } = await stat(join(directory, name))
      if (mtimeMs < olderThan) old.push(name)
    } catch (error) {
      // Another upload or another process was done with it in between.
      if (codeOf(error) !== 'ENOENT') throw error
    }
  }
  return old
}

/** What there is of each. One of which it cannot be had keeps none of the others waiting, and is told of at the end: throws then. */
export async function* ofEach<Name extends string, Found>(
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
    throw new Error(`${failed.length} could not be gone through, ${first.name} first`, { cause: first.cause })
  }
}

/** Tenants that have something in a directory. Whatever else stands there is nobody's. */
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

export function checked(name: string, pattern: RegExp): string {
  if (!pattern.test(name)) throw new Error('a name for the blob directory is not in its form')
  return name
}

/** Whether a store says that it does not have what was to be read. */
export function isGone(error: unknown): boolean {
  return codeOf(error) === 'ENOENT' || (error instanceof Error && error.name === 'NoSuchKey')
}

export function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

const noRoomCodes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** Whether a file system error says that there is no room: disk full, quota used up, file size limit of the process. */
export function isNoRoom(error: unknown): boolean {
  return noRoomCodes.has(codeOf(error))
}
