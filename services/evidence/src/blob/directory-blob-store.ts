import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { constants, createReadStream } from 'node:fs'
import { type FileHandle, access, link, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { finished } from 'node:stream/promises'
import {
  type BlobStore,
  type IncomingBlob,
  type PendingBlob,
  codeOf,
  entryPattern,
  hashPattern,
  parseName,
  tenantPattern,
} from './blob-store.ts'
import { listOlderThan, makeDurably, syncDirectory, tenantsIn } from './directory.ts'

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
