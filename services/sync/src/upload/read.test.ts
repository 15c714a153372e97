import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { readChunks } from './read.ts'

test('chunks of an upload come in order and completely, whatever the batch size', async () => {
  const chunks = ['first,', 'second,', 'third,', 'fourth,', 'fifth'].map((text) => Buffer.from(text))
  for (const most of [1, 2, 5]) {
    const read = readChunks(async (first) => await Promise.resolve(chunks.slice(first, first + most)))
    expect((await buffer(read)).toString()).toBe('first,second,third,fourth,fifth')
  }
})

test('a failed read of the next chunks rejects only when they are requested', async () => {
  const ended = vi.fn<(reason: unknown) => void>()
  process.on('unhandledRejection', ended)
  try {
    const chunks = readChunks(async (first) => {
      if (first === 1) throw new Error('away')
      return await Promise.resolve([Buffer.alloc(1024 * 1024)])
    })
    // The first chunk is there, and nobody takes it yet.
    await once(chunks, 'readable')
    await nextTurn()
    await expect(buffer(chunks)).rejects.toThrow('away')
    await nextTurn()
    expect(ended).not.toHaveBeenCalled()
  } finally {
    process.off('unhandledRejection', ended)
  }
})
