import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { PartSpools } from './part-spool.ts'
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

const noSpools: PartSpools = {
  assertWritable: notHere,
  open: () => {
    throw new Error('not asked for here')
  },
}

test('recorded bytes are kept even if the bucket does not list their name; bytes without a row are deleted', async () => {
  const deleted: string[] = []
  const objects = {
    ...unused,
    sizeOf: async () => await Promise.resolve(undefined),
    delete: async (key: string) => await Promise.resolve(void deleted.push(key.split('/')[0] ?? '')),
  }
  const store = openS3BlobStore(objects, noSpools)
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

test('an upload whose entry is not listed yet counts as in progress: a purge keeps its bytes, and no other upload relies on them', async () => {
  const { blob, names } = inTheBucket()
  const changed: string[] = []
  const change = async (key: string) => {
    changed.push(key.split('/')[0] ?? '')
    return await Promise.resolve({ attempts: 1 })
  }
  const modifiedAt = new Date()
  const objects: S3Objects = {
    ...unused,
    list: async function* list(prefix) {
      for (const key of names)
        if (key.startsWith(prefix)) yield await Promise.resolve({ key, sizeBytes: 0, modifiedAt })
    },
    find: async (key) => await Promise.resolve({ key, sizeBytes: 0, modifiedAt }),
    sizeOf: async () => await Promise.resolve(0),
    put: change,
    delete: async (key) => void (await change(key)),
  }
  const store = openS3BlobStore(objects, noSpools)
  for await (const found of store.reopen(blob, modifiedAt.getTime() - 1)) throw new Error(found.entry)
  expect(changed).toEqual([])
  await store.finish(blob, 'spare')
  expect(changed).toEqual(['settling'])
  const found: string[] = []
  for await (const { entry } of store.reopen(blob, modifiedAt.getTime() + 60_000)) found.push(entry)
  expect(found).toHaveLength(2)
})
