import { randomBytes, randomUUID } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeTestFolder } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { BlobStore, PendingBlob } from '../src/blob/blob-store.ts'
import { type Stores, openStores } from '../src/blob/open-stores.ts'
import { namesOf } from '../src/blob/s3-blob-store.ts'
import { openS3Objects } from '../src/blob/s3-objects.ts'
import type { StoreConfig } from '../src/store-config.ts'
import { type TestBucket, startBucket } from './object-store.ts'
import { listFiles, sha256 } from './support.ts'

const partBytes = 8 * 1024 * 1024
const later = () => Date.now() + 3_600_000

let started: TestBucket
beforeAll(async () => {
  started = await startBucket()
})
afterAll(async () => await started.stop())

const kinds = ['directory', 's3'] as const

describe.each(kinds)('the store of bytes in a %s', (kind) => {
  let bucket: TestBucket | undefined
  let folder: string
  let stores: Stores
  beforeAll(async () => {
    folder = await makeTestFolder('blobs')
    bucket = kind === 'directory' ? undefined : started
    const config: StoreConfig =
      bucket === undefined ? { kind: 'directory', path: folder } : { kind: 's3', ...bucket.config }
    stores = await openStores(config)
  })
  afterAll(() => stores.close())

  /** Everything that is there of a tenant. */
  const there = async (tenantId: string) => {
    const all = [...(await listFiles(folder)), ...((await bucket?.keys()) ?? [])]
    return all.filter((name) => name.includes(tenantId))
  }

  async function settled(tenantId: string, bytes: Buffer): Promise<PendingBlob> {
    const incoming = await stores.blobs.openIncoming(tenantId)
    const half = Math.ceil(bytes.length / 2)
    await incoming.write(bytes.subarray(0, half))
    await incoming.write(bytes.subarray(half))
    return await incoming.settle(tenantId, sha256(bytes))
  }

  const place = async (blob: PendingBlob) => {
    await stores.blobs.putName(blob)
    await stores.blobs.moveIntoPlace(blob)
  }

  const contentOf = async (blob: Parameters<BlobStore['read']>[0]) => {
    const chunks: Buffer[] = []
    for await (const chunk of await stores.blobs.read(blob)) chunks.push(Buffer.from(chunk))
    return Buffer.concat(chunks)
  }

  test.each([
    ['of one byte', 1],
    ['of exactly a part', partBytes],
    ['of more than two parts', 2 * partBytes + 12_345],
  ] as const)('stores bytes %s completely, and one copy if a tenant sends them again', async (_what, size) => {
    const tenantId = randomUUID()
    const bytes = randomBytes(size)
    const first = await settled(tenantId, bytes)
    await place(first)
    await stores.blobs.finish(first, 'recorded')
    expect((await contentOf(first)).equals(bytes)).toBe(true)
    const once = await there(tenantId)
    const second = await settled(tenantId, bytes)
    await place(second)
    await stores.blobs.finish(second, 'spare')
    expect(await there(tenantId)).toEqual(once)
    expect((await contentOf(second)).equals(bytes)).toBe(true)
    expect(await stores.blobs.listPending(tenantId, later())).toEqual([])
  })

  test.skipIf(kind !== 'directory')('repairs a damaged blob when its bytes arrive again', async () => {
    const tenantId = randomUUID()
    const bytes = randomBytes(1000)
    const first = await settled(tenantId, bytes)
    await place(first)
    // Repeated, as after a crash.
    await place(first)
    await stores.blobs.finish(first, 'recorded')
    const once = await listFiles(folder)
    const [name = ''] = await there(tenantId)
    for (const damaged of [randomBytes(1000), randomBytes(10)]) {
      await writeFile(join(folder, name), damaged)
      const again = await settled(tenantId, bytes)
      await place(again)
      await stores.blobs.finish(again, 'spare')
      expect((await contentOf(first)).equals(bytes)).toBe(true)
      expect(await listFiles(folder)).toEqual(once)
    }
  })

  test.skipIf(kind !== 's3')('repairs a blob whose object was deleted when its bytes arrive again', async () => {
    const objects = openS3Objects(started.config)
    const tenantId = randomUUID()
    const bytes = randomBytes(1000)
    const first = await settled(tenantId, bytes)
    await place(first)
    await stores.blobs.finish(first, 'recorded')
    await objects.delete(namesOf(first).data)
    const again = await settled(tenantId, bytes)
    await place(again)
    await stores.blobs.finish(again, 'spare')
    expect((await contentOf(first)).equals(bytes)).toBe(true)
    // Another copy is deleted, like any second one.
    const third = await settled(tenantId, bytes)
    await place(third)
    await stores.blobs.finish(third, 'spare')
    expect(await objects.sizeOf(namesOf(third).data)).toBeUndefined()
    expect((await contentOf(first)).equals(bytes)).toBe(true)
    objects.close()
  })

  test('keeps no discarded bytes, and creates no entry for another tenant', async () => {
    const tenantId = randomUUID()
    const incoming = await stores.blobs.openIncoming(tenantId)
    await incoming.write(randomBytes(partBytes + 1))
    await incoming.discard()
    await incoming.discard()
    expect(await there(tenantId)).toEqual([])
    expect(await bucket?.begun()).toBe(kind === 'directory' ? undefined : 0)
    expect(await stores.blobs.sweepIncoming(later())).toBe(0)
  })

  test('does not show incomplete uploads, and the sweep deletes old ones', async () => {
    const tenantId = randomUUID()
    const incoming = await stores.blobs.openIncoming(tenantId)
    await incoming.write(randomBytes(partBytes + 1))
    await expect(stores.blobs.read({ tenantId, sha256: sha256('x') })).rejects.toThrow(/ENOENT|no bytes/)
    expect(await stores.blobs.listPending(tenantId, later())).toEqual([])
    expect(await there(tenantId)).toEqual([])
    expect(await stores.blobs.sweepIncoming(Date.now() - 3_600_000)).toBe(0)
    expect(await stores.blobs.sweepIncoming(later())).toBe(1)
    expect(await bucket?.begun()).toBe(kind === 'directory' ? undefined : 0)
    await incoming.discard()
  })

  test('deletes exactly the bytes of a tenant with a hash, repeatably', async () => {
    const [tenantId, other] = [randomUUID(), randomUUID()]
    const placed: PendingBlob[] = []
    for (const [owner, text] of [
      [tenantId, 'gone'],
      [tenantId, 'stays'],
      [other, 'gone'],
    ] as const) {
      const blob = await settled(owner, Buffer.from(text))
      await place(blob)
      await stores.blobs.finish(blob, 'kept')
      placed.push(blob)
    }
    const blob = { tenantId, sha256: sha256('gone') }
    for (const time of ['once', 'again']) {
      for await (const found of stores.blobs.reopen(blob, 0)) {
        await stores.blobs.remove(found)
        await stores.blobs.finish(found, 'gone')
      }
      await expect(stores.blobs.read(blob), time).rejects.toThrow(/ENOENT|no bytes/)
    }
    await expect(stores.blobs.read(blob)).rejects.toThrow(/ENOENT|no bytes/)
    const [, stays, theirs] = placed
    expect([(await contentOf(stays ?? blob)).toString(), (await contentOf(theirs ?? blob)).toString()]).toEqual([
      'stays',
      'gone',
    ])
    // The same bytes can be stored again.
    const again = await settled(tenantId, Buffer.from('gone'))
    await place(again)
    await stores.blobs.finish(again, 'recorded')
    expect((await contentOf(blob)).toString()).toBe('gone')
  })

  test('lists undecided settling entries, and deletes them with their blobs', async () => {
    const tenantId = randomUUID()
    const placed = await settled(tenantId, Buffer.from('placed'))
    await place(placed)
    const settledOnly = await settled(tenantId, Buffer.from('settled only'))
    expect(await stores.blobs.listPending(tenantId, Date.now() - 3_600_000)).toEqual([])
    const found = await stores.blobs.listPending(tenantId, later())
    expect(found).toHaveLength(2)
    expect(found).toEqual(expect.arrayContaining([placed, settledOnly]))
    expect(await stores.blobs.listPending(randomUUID(), later())).toEqual([])
    expect(await stores.blobs.listTenantsWithPending(Date.now() - 3_600_000)).not.toContain(tenantId)
    expect(await stores.blobs.listTenantsWithPending(later())).toContain(tenantId)
    for (const blob of found) {
      await stores.blobs.remove(blob)
      await stores.blobs.finish(blob, 'gone')
    }
    expect(await there(tenantId)).toEqual([])
    expect(await stores.blobs.listTenantsWithPending(later())).not.toContain(tenantId)
  })

  test('keeps bytes that one upload abandoned and another one recorded', async () => {
    const tenantId = randomUUID()
    const leftBehind = await settled(tenantId, Buffer.from('again'))
    await place(leftBehind)
    const recorded = await settled(tenantId, Buffer.from('again'))
    await place(recorded)
    await stores.blobs.finish(recorded, 'spare')
    // Later it is decided that a row names these bytes.
    await stores.blobs.finish(leftBehind, 'kept')
    expect((await contentOf(recorded)).toString()).toBe('again')
    expect(await stores.blobs.listPending(tenantId, later())).toEqual([])
  })

  test.runIf(kind === 's3')(
    'lets no upload rely on bytes, nor a purge take them, while they may go or come',
    async () => {
      const tenantId = randomUUID()
      const reopened = async (olderThan: number) => {
        const found: PendingBlob[] = []
        const blob = { tenantId, sha256: sha256('again') }
        for await (const each of stores.blobs.reopen(blob, olderThan)) found.push(each)
        return found
      }
      const leftBehind = await settled(tenantId, Buffer.from('again'))
      await place(leftBehind)
      const spare = await settled(tenantId, Buffer.from('again'))
      await place(spare)
      expect(await reopened(0)).toEqual([])
      expect(await reopened(later())).toHaveLength(2)
      await stores.blobs.finish(spare, 'spare')
      await stores.blobs.finish(leftBehind, 'gone')
      expect((await contentOf(spare)).toString()).toBe('again')
      // A blob whose deletion has started is found again, and no upload relies on it.
      expect(await reopened(0)).toEqual([spare])
      expect(await reopened(0)).toEqual([spare])
      const next = await settled(tenantId, Buffer.from('again'))
      await place(next)
      await stores.blobs.finish(next, 'spare')
      await stores.blobs.finish(spare, 'gone')
      expect((await contentOf(next)).toString()).toBe('again')
      expect(await stores.blobs.listPending(tenantId, later())).toEqual([])
    },
  )

  test('stores bytes under a new name if those of an earlier upload are gone', async () => {
    const tenantId = randomUUID()
    const gone = await settled(tenantId, Buffer.from('again'))
    await place(gone)
    await stores.blobs.remove(gone)
    await stores.blobs.finish(gone, 'gone')
    const blob = await settled(tenantId, Buffer.from('again'))
    await place(blob)
    await stores.blobs.finish(blob, 'spare')
    expect((await contentOf(blob)).toString()).toBe('again')
  })

  test('counts the bytes of a turn at its end, whatever its writer still writes', async () => {
    const { partials } = stores
    const [tenantId, id] = [randomUUID(), randomUUID()]
    const slow = await partials.append(tenantId, id, 1)
    await slow.write(Buffer.alloc(partBytes, 'a'))
    await slow.write(Buffer.alloc(1, 'a'))
    const length = await partials.seal(tenantId, id, 1)
    expect(length).toBeGreaterThanOrEqual(partBytes)
    const next = await partials.append(tenantId, id, 2)
    await slow.write(Buffer.from('too late'))
    await next.write(Buffer.from('next'))
    expect(await next.close()).toBe(4)
    await slow.close()
    const chunks: Buffer[] = []
    const pieces = [
      { turn: 1, length },
      { turn: 2, length: 4 },
    ]
    for await (const chunk of partials.read(tenantId, id, pieces)) chunks.push(chunk)
    const expected = Buffer.concat([Buffer.alloc(length, 'a'), Buffer.from('next')])
    expect(Buffer.concat(chunks).equals(expected)).toBe(true)
    await partials.remove(tenantId, id)
    expect(await there(tenantId)).toEqual([])
    expect(await partials.seal(tenantId, id, 1)).toBe(0)
  })

  test('removes a whole piece, and sweeps pieces by their age', async () => {
    const { partials } = stores
    const [tenantId, id] = [randomUUID(), randomUUID()]
    const writer = await partials.append(tenantId, id, 1)
    await writer.write(Buffer.alloc(partBytes + 1, 'a'))
    await writer.rollBack()
    expect(await writer.close()).toBe(0)
    expect(await partials.seal(tenantId, id, 1)).toBe(0)
    const kept = await partials.append(tenantId, id, 2)
    await kept.write(Buffer.from('kept'))
    await kept.close()
    const listed = async (olderThan: number) => {
      const uploads: unknown[] = []
      for await (const upload of partials.list(olderThan)) uploads.push(upload)
      return uploads.filter((upload) => JSON.stringify(upload).includes(tenantId))
    }
    expect(await listed(Date.now() - 3_600_000)).toEqual([])
    expect(await listed(later())).toEqual([{ tenantId, id }])
    expect(await partials.sweep(Date.now() - 3_600_000)).toBe(0)
    expect(await partials.sweep(later())).toBeGreaterThan(0)
    expect(await there(tenantId)).toEqual([])
  })

  test.skipIf(kind === 's3')(
    'lists the pieces of other tenants if those of one cannot be read, and then throws',
    async () => {
      const [tenantId, unread] = [randomUUID(), randomUUID()]
      const piece = { tenantId, id: randomUUID() }
      const writer = await stores.partials.append(tenantId, piece.id, 1)
      await writer.write(Buffer.from('abc'))
      await writer.close()
      // For a directory that may not be read, which a superuser may.
      const inTheWay = ['partial', 'settling'].map((name) => join(folder, name, unread))
      // Entries without a tenant are neither reported nor opened.
      const strays = ['partial', 'settling'].map((name) => join(folder, name, '.stray'))
      for (const path of [...inTheWay, ...strays]) await writeFile(path, '')
      const listed: unknown[] = []
      const list = async () => {
        for await (const found of stores.partials.list(later())) listed.push(found)
      }
      await expect(list()).rejects.toThrow(`first ${unread}`)
      expect(listed).toContainEqual(piece)
      expect(await stores.blobs.listTenantsWithPending(later())).toContain(unread)
      await expect(stores.blobs.listPending(unread, later())).rejects.toThrow('ENOTDIR')
      await expect(stores.partials.sweep(later())).rejects.toThrow(`first ${unread}`)
      for (const path of inTheWay) await rm(path)
      expect(await stores.partials.sweep(later())).toBe(0)
      for (const path of strays) await rm(path)
      expect(await there(tenantId)).toEqual([])
    },
  )

  test('returns the store’s time, to a second', async () => {
    const before = Date.now()
    const time = await stores.blobs.time()
    expect(time).toBeGreaterThan(before - 1001)
    expect(time).toBeLessThanOrEqual(Date.now())
  })

  test('rejects invalid names, so that no path or key leaves its tenant', async () => {
    const blob = { tenantId: '../other', sha256: sha256('a'), entry: `${sha256('a')}.${'0'.repeat(32)}` }
    await expect(stores.blobs.moveIntoPlace(blob)).rejects.toThrow('invalid name')
    await expect(stores.blobs.putName({ ...blob, tenantId: randomUUID(), entry: '../x' })).rejects.toThrow(
      'invalid name',
    )
    await expect(stores.blobs.finish({ ...blob, tenantId: randomUUID(), entry: '../x' }, 'gone')).rejects.toThrow(
      'invalid name',
    )
    await expect(stores.blobs.listPending('', later())).rejects.toThrow('invalid name')
    await expect(stores.partials.remove(randomUUID(), '../x')).rejects.toThrow('invalid name')
  })
})
