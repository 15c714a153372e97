import { createHash, randomBytes } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { NoBlockFree, blockBytes, openBlocks } from '../digest/blocks.ts'
import { DigesterGone, openDigester } from '../digest/digester.ts'
import { pourInto } from './pour.ts'

const digester = openDigester(openBlocks(2))
afterAll(async () => await digester.close())

const whole = { digester, isFree: false, waitMs: 10_000 } as const

/** What is written, copied before the memory is used again, and when: each write ends by `end`. */
function keeper() {
  const kept: Buffer[] = []
  return {
    write: async (...chunks: readonly Uint8Array[]) => {
      for (const chunk of chunks) kept.push(Buffer.from(chunk))
      await new Promise((resolve) => setImmediate(resolve))
    },
    bytes: () => Buffer.concat(kept),
  }
}

describe('bytes that cannot be kept', () => {
  test('end the pouring: nothing is written behind them, and every block is free again', async () => {
    let writes = 0
    const write = async (): Promise<void> => {
      writes += 1
      if (writes === 2) throw new Error('disk full')
    }
    const pour = pourInto({ write }, whole)
    const pouring = async (): Promise<void> => {
      for (let turn = 0; turn < 20; turn += 1) await pour.take([Buffer.alloc(blockBytes)])
    }
    await expect(pouring()).rejects.toThrow('disk full')
    await expect(pour.end()).rejects.toThrow('disk full')
    await pour.abandon()
    expect(writes).toBe(2)
    const blocks = await Promise.all([digester.blocks.take(0), digester.blocks.take(0)])
    for (const block of blocks) block.release()
  })

  test('fail where the thread of digests ends amid them, and those of the next are right', async () => {
    const { write } = keeper()
    const pour = pourInto({ write }, whole)
    await pour.take([Buffer.alloc(2 * blockBytes)])
    await digester.close()
    const rest = async (): Promise<string> => {
      await pour.take([Buffer.alloc(2 * blockBytes)])
      return await pour.end()
    }
    await expect(rest()).rejects.toThrow(DigesterGone)
    await pour.abandon()
    const next = pourInto({ write }, whole)
    await next.take([Buffer.alloc(blockBytes + 1)])
    expect(await next.end()).toBe(
      createHash('sha256')
        .update(Buffer.alloc(blockBytes + 1))
        .digest('hex'),
    )
  })
})

test('who sends slowly holds no block, however many do', async () => {
  const slow = Array.from({ length: 10 }, () => pourInto(keeper(), whole))
  for (const pour of slow) await pour.take([Buffer.alloc(blockBytes + 1000)])
  const { write, bytes } = keeper()
  const quick = pourInto({ write }, whole)
  await quick.take([Buffer.alloc(3 * blockBytes, 'a')])
  await quick.end()
  expect(bytes().equals(Buffer.alloc(3 * blockBytes, 'a'))).toBe(true)
  for (const pour of slow) await pour.abandon()
})

test('who waits for a store that is not ready holds no block, however many do', async () => {
  let isReady = false
  const store = Promise.withResolvers<void>()
  const ready = async () => (isReady ? undefined : await store.promise)
  const parts = Array.from({ length: 10 }, () => {
    const { write: keep, bytes } = keeper()
    const write = async (chunk: Uint8Array): Promise<void> => {
      await ready()
      await keep(chunk)
    }
    const pour = pourInto({ write, ready }, whole)
    return { bytes, pour, taken: pour.take([Buffer.alloc(3 * blockBytes, 'b')]) }
  })
  const { write, bytes } = keeper()
  const quick = pourInto({ write }, whole)
  await quick.take([Buffer.alloc(3 * blockBytes, 'a')])
  await quick.end()
  expect(bytes().equals(Buffer.alloc(3 * blockBytes, 'a'))).toBe(true)
  isReady = true
  store.resolve()
  for (const { bytes: kept, pour, taken } of parts) {
    await taken
    await pour.end()
    expect(kept().equals(Buffer.alloc(3 * blockBytes, 'b'))).toBe(true)
  }
})

test('who finds no block free in time is told so, and takes none from who waits on', async () => {
  const blocks = openBlocks(1)
  const held = await blocks.take(0)
  const patient = blocks.take(10_000)
  const pour = pourInto(keeper(), { ...whole, digester: { ...digester, blocks }, waitMs: 1 })
  await expect(pour.take([Buffer.alloc(blockBytes)])).rejects.toThrow(NoBlockFree)
  held.release()
  ;(await patient).release()
  ;(await blocks.take(0)).release()
  await pour.abandon()
})

test.each([
  ['nothing', [[0]]],
  ['one byte', [[1]]],
  ['less than a block', [[65_536, 3], [100]]],
  ['exactly a block', [[blockBytes]]],
  ['one byte more', [[blockBytes, 1]]],
  ['pieces that go over the ends of blocks', [[300_000, 300_000], [1], [2_000_000], [65_536, 65_536, 77]]],
  ['bytes one by one', Array.from({ length: 40 }, () => Array.from({ length: 64 }, () => 1))],
] as const)('of %s all is kept in order, and hashed', async (_what, sizes) => {
  const batches = sizes.map((batch) => batch.map((size) => randomBytes(size)))
  const expected = Buffer.concat(batches.flat())
  for (const isFree of [false, true]) {
    const { write, bytes } = keeper()
    const pour = pourInto({ write }, { ...whole, isFree })
    // Where chunks are free they are given away.
    for (const batch of batches) await pour.take(isFree ? batch.map((chunk) => ownCopy(chunk)) : batch)
    expect(await pour.end()).toBe(createHash('sha256').update(expected).digest('hex'))
    expect(bytes().equals(expected)).toBe(true)
    await pour.abandon()
  }
})

test('memory that is nobody else’s goes back as soon as it is copied', async () => {
  const pour = pourInto(keeper(), { ...whole, isFree: true })
  const chunk = ownCopy(randomBytes(blockBytes))
  await pour.take([chunk])
  expect(chunk.length).toBe(0)
  await pour.abandon()
})

function ownCopy(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}
