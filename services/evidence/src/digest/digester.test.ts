import { createHash, randomBytes } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { type Block, blockBytes, isOfWholePages, openBlocks } from './blocks.ts'
import { DigesterGone, openDigester } from './digester.ts'

const digester = openDigester(openBlocks(3))
afterEach(async () => await digester.close())

const hexOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

async function filled(bytes: Buffer): Promise<Block> {
  const block = await digester.blocks.take(0)
  bytes.copy(block.bytes)
  return block
}

describe('where the thread of digests ends', () => {
  test('every digest that is under way fails, and the next one is right again', async () => {
    const block = await filled(Buffer.from('evidence'))
    const lost = digester.begin()
    await lost.add(block, 8)
    const idle = digester.begin()
    await idle.add(block, 8)
    const ending = digester.close()
    await expect(lost.add(block, 8)).rejects.toThrow(DigesterGone)
    await ending
    await expect(idle.finish()).rejects.toThrow(DigesterGone)
    lost.forget()
    const next = digester.begin()
    await next.add(block, 8)
    expect(await next.finish()).toBe(hexOf(Buffer.from('evidence')))
    block.release()
  })
})

test('digests that are made at the same time are those of their own bytes', async () => {
  const contents = [randomBytes(blockBytes), randomBytes(12_345)]
  const [one, other] = await Promise.all(contents.map(filled))
  if (one === undefined || other === undefined) throw new Error('there are no blocks')
  const digests = [digester.begin(), digester.begin(), digester.begin()] as const
  await Promise.all([
    digests[0].add(one, blockBytes),
    digests[1].add(other, 12_345),
    digests[0].add(other, 12_345),
    digests[2].add(one, blockBytes),
  ])
  digests[2].forget()
  expect(await Promise.all([digests[0].finish(), digests[1].finish()])).toEqual([
    hexOf(Buffer.concat(contents)),
    hexOf(contents[1] ?? Buffer.alloc(0)),
  ])
  for (const block of [one, other]) block.release()
})

test('blocks are given out once, to who has waited longest, and begin at a page', async () => {
  const { take } = openBlocks(2)
  const [first, second] = [await take(0), await take(0)]
  expect(first.offset).not.toBe(second.offset)
  const got: string[] = []
  const [third, fourth] = [
    take(0).then((block) => (got.push('third'), block)),
    take(0).then((block) => (got.push('fourth'), block)),
  ]
  second.release()
  expect((await third).offset).toBe(second.offset)
  expect(got).toEqual(['third'])
  first.release()
  expect((await fourth).offset).toBe(first.offset)
  expect(isOfWholePages(first.bytes)).toBe(true)
  expect(isOfWholePages(first.bytes.subarray(4096))).toBe(true)
  expect(isOfWholePages(first.bytes.subarray(1))).toBe(false)
  expect(isOfWholePages(first.bytes.subarray(0, 100))).toBe(false)
  expect(isOfWholePages(Buffer.alloc(blockBytes))).toBe(false)
})
