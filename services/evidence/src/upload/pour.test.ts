import { createHash, randomBytes } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { blockBytes, openBlocks } from '../digest/blocks.ts'
import { DigesterGone, openDigester } from '../digest/digester.ts'
import { pourInto } from './pour.ts'

const digester = openDigester(openBlocks(2))
afterAll(async () => await digester.close())

const whole = { digester, isFree: false } as const

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
    const pour = pourInto(write, whole)
    const pouring = async (): Promise<void> => {
      for (let turn = 0; turn < 20; turn += 1) await pour.take([Buffer.alloc(blockBytes)])
    }
    await expect(pouring()).rejects.toThrow('disk full')
    await expect(pour.end()).rejects.toThrow('disk full')
    await pour.abandon()
    expect(writes).toBe(2)
    const blocks = await Promise.all([digester.blocks.take(), digester.blocks.take()])
    for (const block of blocks) block.release()
  })

  test('fail where the thread of digests ends amid them, and those of the next are right', async () => {
    const { write } = keeper()
    const pour = pourInto(write, whole)
    await pour.take([Buffer.alloc(2 * blockBytes)])
    await digester.close()
    const rest = async (): Promise<string> => {
      await pour.take([Buffer.alloc(2 * blockBytes)])
      return await pour.end()
    }
    await expect(rest()).rejects.toThrow(DigesterGone)
    await pour.abandon()
    const next = pourInto(write, whole)
    await next.take([Buffer.alloc(blockBytes + 1)])
    expect(await next.end()).toBe(
      createHash('sha256')
        .update(Buffer.alloc(blockBytes + 1))
        .digest('hex'),
    )
  })
})

test('who sends slowly holds no block, however many do', async () => {
  const slow = Array.from({ length: 10 }, () => pourInto(keeper().write, whole))
  for (const pour of slow) await pour.take([Buffer.alloc(blockBytes + 1000)])
  const { write, bytes } = keeper()
  const quick = pourInto(write, whole)
  await quick.take([Buffer.alloc(3 * blockBytes, 'a')])
  await quick.end()
  expect(bytes().equals(Buffer.alloc(3 * blockBytes, 'a'))).toBe(true)
  for (const pour of slow) await pour.abandon()
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
    const pour = pourInto(write, { ...whole, isFree })
    // Where chunks are free they are given away.
    for (const batch of batches) await pour.take(isFree ? batch.map((chunk) => ownCopy(chunk)) : batch)
    expect(await pour.end()).toBe(createHash('sha256').update(expected).digest('hex'))
    expect(bytes().equals(expected)).toBe(true)
    await pour.abandon()
  }
})

test('memory that is nobody else’s goes back as soon as it is copied', async () => {
  const pour = pourInto(keeper().write, { ...whole, isFree: true })
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
