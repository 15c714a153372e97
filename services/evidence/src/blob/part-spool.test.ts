import { readdir } from 'node:fs/promises'
import { randomBytes } from 'node:crypto'
import { makeTestFolder } from '@postern/local-stack/testing'
import { expect, test } from 'vitest'
import { createPartMemory, partBytes } from './part-memory.ts'
import { createPartSpools } from './part-spool.ts'

/** A spool that keeps a copy of each part, and the memory that each part was in. */
async function openTestSpool(attempts = 1) {
  const directory = await makeTestFolder('spool')
  const sent: Buffer[] = []
  const memory = new Set<ArrayBufferLike>()
  const spool = createPartSpools(directory, createPartMemory(2)).open('a-tenant', async (bytes) => {
    sent.push(Buffer.from(bytes))
    memory.add(bytes.buffer)
    return await Promise.resolve({ attempts })
  })
  return { directory, sent, memory, spool }
}

test('bytes are sent in parts, in their order, and leave no file behind', async () => {
  const { directory, sent, spool } = await openTestSpool()
  const bytes = randomBytes(2 * partBytes + 5)
  for (let at = 0; at < bytes.length; at += 1_000_000) await spool.write(bytes.subarray(at, at + 1_000_000))
  expect(sent.map(({ length }) => length)).toEqual([partBytes, partBytes])
  expect(await readdir(directory)).toEqual([])
  await spool.flush()
  await spool.close()
  expect(Buffer.concat(sent).equals(bytes)).toBe(true)
})

test('a part that is exactly full is sent once, with the last bytes', async () => {
  const { sent, spool } = await openTestSpool()
  await spool.write(randomBytes(partBytes))
  expect(sent).toHaveLength(0)
  await spool.flush()
  await spool.flush()
  expect(sent.map(({ length }) => length)).toEqual([partBytes])
  await spool.close()
})

test.each([
  ['is used again after one attempt', 1, 1],
  ['is not used again while an attempt that was given up may read it', 2, 3],
])('the memory of a part %s', async (_what, attempts, count) => {
  const { memory, spool } = await openTestSpool(attempts)
  await spool.write(randomBytes(3 * partBytes))
  await spool.flush()
  expect(memory.size).toBe(count)
  await spool.close()
})

test('cleared bytes are not sent', async () => {
  const { sent, spool } = await openTestSpool()
  await spool.write(Buffer.from('first'))
  spool.clear()
  await spool.write(Buffer.from('second'))
  await spool.flush()
  expect(sent.map(String)).toEqual(['second'])
  await spool.close()
})
