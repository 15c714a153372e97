import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { openPartRoom, partBytes } from './part-room.ts'
import { openS3BlobStore } from './s3-blob-store.ts'
import type { S3Objects } from './s3-objects.ts'

async function* nothing(): AsyncGenerator<never> {}
const notHere = async (): Promise<never> => await Promise.reject(new Error('not asked for here'))

const unused: S3Objects = {
  put: notHere,
  sizeOf: notHere,
  find: notHere,
  read: notHere,
  delete: notHere,
  deleteAll: notHere,
  list: nothing,
  begin: notHere,
  putPart: notHere,
  complete: notHere,
  abort: notHere,
  listBegun: nothing,
  check: notHere,
  close: () => undefined,
}

test('who has recorded bytes keeps them, though the bucket does not show their name; what was left behind without one goes', async () => {
  const deleted: string[] = []
  const store = openS3BlobStore({
    ...unused,
    sizeOf: async () => await Promise.resolve(undefined),
    delete: async (key) => await Promise.resolve(void deleted.push(key.split('/')[0] ?? '')),
  })
  const sha256 = createHash('sha256').update('a').digest('hex')
  const blob = { tenantId: randomUUID(), sha256, entry: `${sha256}.${randomBytes(16).toString('hex')}` }
  await store.finish(blob, 'recorded')
  expect(deleted).toEqual(['settling'])
  await store.finish(blob, 'kept')
  expect(deleted).toEqual(['settling', 'data', 'settling'])
})

const inTheBucket = () => {
  const sha256 = createHash('sha256').update('a').digest('hex')
  const [ours, theirs] = ['a', 'b'].map((digit) => digit.repeat(32))
  const tenantId = randomUUID()
  return {
    blob: { tenantId, sha256, entry: `${sha256}.${ours}` },
    names: [ours, theirs].map((random) => `blobs/${tenantId}/${sha256}/${random}`),
  }
}

test('an upload whose entry no listing shows yet is one that brings bytes now: a purge leaves them, and no other relies on them', async () => {
  const { blob, names } = inTheBucket()
  const changed: string[] = []
  const change = async (key: string) => {
    changed.push(key.split('/')[0] ?? '')
    return await Promise.resolve({ isOver: true })
  }
  const modifiedAt = new Date()
  const store = openS3BlobStore({
    ...unused,
    list: async function* list(prefix) {
      for (const key of names)
        if (key.startsWith(prefix)) yield await Promise.resolve({ key, sizeBytes: 0, modifiedAt })
    },
    find: async (key) => await Promise.resolve({ key, sizeBytes: 0, modifiedAt }),
    sizeOf: async () => await Promise.resolve(0),
    put: change,
    delete: async (key) => void (await change(key)),
  })
  for await (const found of store.reopen(blob, modifiedAt.getTime() - 1)) throw new Error(found.entry)
  expect(changed).toEqual([])
  await store.finish(blob, 'spare')
  expect(changed).toEqual(['settling'])
  const found: string[] = []
  for await (const { entry } of store.reopen(blob, modifiedAt.getTime() + 60_000)) found.push(entry)
  expect(found).toHaveLength(2)
})

test('bytes that were set aside by an upload that is no more go when that is certain', async () => {
  const deleted: string[] = []
  const old = [new Date(1000), new Date(3000)]
  const store = openS3BlobStore({
    ...unused,
    list: async function* list(prefix) {
      if (prefix !== 'aside/') return
      for (const modifiedAt of old) {
        yield await Promise.resolve({ key: `aside/${modifiedAt.getTime()}`, sizeBytes: 1, modifiedAt })
      }
    },
    delete: async (key) => await Promise.resolve(void deleted.push(key)),
  })
  expect(await store.sweepIncoming(2000)).toBe(1)
  expect(deleted).toEqual(['aside/1000'])
})

test.each([
  ['is set aside', 2 * 1024 * 1024],
  ['goes as a part', 6 * 1024 * 1024],
])('a file whose last bytes others have asked the room of, so that it %s, settles whole', async (_how, size) => {
  const stored = new Map<string, Buffer>()
  const under = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const keep = async (key: string, bytes: Uint8Array) => {
    const copy = Buffer.from(bytes)
    if (!key.startsWith('settling/')) {
      under.resolve()
      await gate.promise
    }
    stored.set(key, copy)
    return { isOver: true }
  }
  const objects: S3Objects = {
    ...unused,
    put: keep,
    sizeOf: async (key) => await Promise.resolve(stored.get(key)?.length),
    read: async (key) => await Promise.resolve(Readable.from([stored.get(key)])),
    delete: async (key) => await Promise.resolve(void stored.delete(key)),
    deleteAll: async (keys) => {
      for (const key of keys) stored.delete(key)
      await Promise.resolve()
    },
    begin: async () => await Promise.resolve('upload'),
    putPart: async (key, _uploadId, number, bytes) => ({
      ...(await keep(`${key}#${number}`, bytes)),
      number,
      etag: undefined,
      sha256: undefined,
    }),
    complete: async (key, _uploadId, parts) => {
      stored.set(key, Buffer.concat(parts.map(({ number }) => stored.get(`${key}#${number}`) ?? Buffer.alloc(0))))
      expect(parts).toHaveLength(1)
      await Promise.resolve()
    },
  }
  const store = openS3BlobStore(objects, openPartRoom(1, 60_000, 0))
  const [tenant, other] = [randomUUID(), randomUUID()]
  const bytes = randomBytes(size)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const ours = await store.openIncoming(tenant)
  await ours.write(bytes)
  const theirs = await store.openIncoming(other)
  const written = theirs.write(Buffer.alloc(partBytes / 2))
  await under.promise
  const settled = ours.settle(tenant, sha256)
  await expect.poll(() => [...stored.keys()].filter((key) => key.startsWith('settling/'))).toHaveLength(1)
  gate.resolve()
  await settled
  await written
  const [, whole] = [...stored].find(([key]) => /^data\/[^#]*$/.test(key)) ?? []
  expect(whole?.equals(bytes)).toBe(true)
})
