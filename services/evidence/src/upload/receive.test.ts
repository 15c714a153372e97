import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { noScanner } from '../scan/scanner.ts'
import { receiveBody } from './receive.ts'

const declared = { contentType: 'application/octet-stream', contentLength: undefined, sha256: undefined }
const limits = { maxBytes: 1000, stallMs: 20_000, isInTime: () => true, scanner: noScanner, allowedTypes: undefined }

/** A body that stays open after its chunks, like a request whose sender continues. */
function openBody(...chunks: readonly string[]): Readable {
  const body = new Readable({ read: () => undefined })
  for (const chunk of chunks) body.push(chunk)
  return body
}

/** A blob that accepts each chunk on command. */
function slowBlob() {
  const chunks: string[] = []
  const waiting: PromiseWithResolvers<void>[] = []
  return {
    chunks,
    waiting,
    write: async (chunk: Uint8Array) => {
      chunks.push(Buffer.from(chunk).toString())
      const taken = Promise.withResolvers<void>()
      waiting.push(taken)
      await taken.promise
    },
  }
}

describe('an upload', () => {
  test('that grows too large is rejected at once, and its connection stays open for the response', async () => {
    const body = openBody('a'.repeat(1001))
    const blob = slowBlob()
    await expect(receiveBody(body, blob, declared, limits)).rejects.toMatchObject({ code: 'content_too_large' })
    expect(blob.chunks).toEqual([])
    expect(body.destroyed).toBe(false)
  })

  test('whose store fails is rejected without waiting for its sender', async () => {
    const body = openBody('a,b')
    const blob = slowBlob()
    const received = receiveBody(body, blob, declared, limits)
    await expect.poll(() => blob.waiting.length).toBe(1)
    blob.waiting[0]?.reject(Object.assign(new Error('full'), { code: 'ENOSPC' }))
    await expect(received).rejects.toMatchObject({ code: 'ENOSPC' })
    expect(body.destroyed).toBe(false)
  })

  test('is read no faster than its store can write, and is hashed completely', async () => {
    const body = openBody('a,b\n')
    const blob = slowBlob()
    const received = receiveBody(body, blob, declared, limits)
    await expect.poll(() => blob.waiting.length).toBe(1)
    body.push('c,d\n')
    body.push(null)
    await setImmediate()
    expect(blob.chunks).toEqual(['a,b\n'])
    blob.waiting[0]?.resolve()
    await expect.poll(() => blob.waiting.length).toBe(2)
    blob.waiting[1]?.resolve()
    const sha256 = createHash('sha256').update('a,b\nc,d\n').digest('hex')
    expect(await received).toMatchObject({ sizeBytes: 8, sha256, scan: { result: 'not_configured' } })
  })
})
