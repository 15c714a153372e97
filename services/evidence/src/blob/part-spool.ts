import { randomBytes } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type PartMemory, partBytes } from './part-memory.ts'
import type { SentObject } from './s3-objects.ts'

/** Sends one part. The bytes are valid until it resolves. */
export type SendPart = (bytes: Uint8Array) => Promise<SentObject>

/** Collects bytes on disk until they make a part, so that a slow sender needs no memory. */
export interface PartSpool {
  /** Call it sequentially. Sends each full part before it accepts more. */
  write(chunk: Uint8Array, signal?: AbortSignal): Promise<void>
  /** Sends what is left, with `send` if given. */
  flush(send?: SendPart): Promise<void>
  clear(): void
  close(): Promise<void>
}

export interface PartSpools {
  assertWritable(): Promise<void>
  open(tenantId: string, send: SendPart): PartSpool
}

export function createPartSpools(directory: string, memory: PartMemory): PartSpools {
  return {
    assertWritable: async () => {
      const file = await openUnlinked(directory).catch((cause: unknown) => {
        const fix = 'Mount a writable volume there, or set POSTERN_BLOB_S3_SPOOL_DIRECTORY.'
        throw new Error(`The spool directory ${directory} does not accept files. ${fix}`, { cause })
      })
      await file.close()
    },
    open: (tenantId, send) => openSpool({ directory, memory, tenantId, send }),
  }
}

function openSpool({
  directory,
  memory,
  tenantId,
  send,
}: {
  readonly directory: string
  readonly memory: PartMemory
  readonly tenantId: string
  readonly send: SendPart
}): PartSpool {
  let file: FileHandle | undefined
  let length = 0

  async function sendPart(by: SendPart, signal?: AbortSignal): Promise<void> {
    const { buffer, release } = await memory.acquire(tenantId, length, signal)
    let isReusable = false
    try {
      await readFully(file, buffer)
      const { attempts } = await by(buffer)
      // An earlier attempt may still read the buffer.
      isReusable = attempts === 1
      length = 0
    } finally {
      release(isReusable)
    }
  }

  return {
    write: async (chunk, signal) => {
      file ??= await openUnlinked(directory)
      for (let rest = chunk; rest.byteLength > 0;) {
        if (length === partBytes) await sendPart(send, signal)
        const { bytesWritten } = await file.write(rest, 0, Math.min(rest.byteLength, partBytes - length), length)
        length += bytesWritten
        rest = rest.subarray(bytesWritten)
      }
    },
    flush: async (by) => {
      if (by !== undefined || length > 0) await sendPart(by ?? send)
    },
    clear: () => {
      length = 0
    },
    close: async () => {
      const opened = file
      file = undefined
      length = 0
      await opened?.close()
    },
  }
}

async function readFully(file: FileHandle | undefined, buffer: Buffer): Promise<void> {
  for (let at = 0; at < buffer.length;) {
    const { bytesRead = 0 } = (await file?.read(buffer, at, buffer.length - at, at)) ?? {}
    if (bytesRead === 0) throw new Error('the spool file is shorter than what was written to it')
    at += bytesRead
  }
}

/** An unnamed file, which the kernel deletes even if the process is killed. */
async function openUnlinked(directory: string): Promise<FileHandle> {
  const path = join(directory, `postern-part-${randomBytes(16).toString('hex')}`)
  const file = await open(path, 'wx+', 0o600)
  try {
    await rm(path)
  } catch (error) {
    await file.close()
    throw error
  }
  return file
}
