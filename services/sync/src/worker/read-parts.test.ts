import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { readParts } from './read-parts.ts'

test('parts of an upload come one after the other, to the end', async () => {
  const parts = ['first,', 'second,', 'third'].map((text) => Buffer.from(text))
  expect((await buffer(readParts(async (index) => await Promise.resolve(parts[index])))).toString()).toBe(
    parts.join(''),
  )
})

test('that the next part cannot be read is told to who comes to it, and ends nothing else meanwhile', async () => {
  const ended = vi.fn<(reason: unknown) => void>()
  process.on('unhandledRejection', ended)
  try {
    const parts = readParts(async (index) => {
      if (index === 1) throw new Error('away')
      return await Promise.resolve(Buffer.alloc(1024 * 1024))
    })
    // The first part is there, and nobody takes it yet.
    await once(parts, 'readable')
    await nextTurn()
    await expect(buffer(parts)).rejects.toThrow('away')
    await nextTurn()
    expect(ended).not.toHaveBeenCalled()
  } finally {
    process.off('unhandledRejection', ended)
  }
})
