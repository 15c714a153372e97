import { PassThrough, Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { readBatches } from './read-batches.ts'

const kibibyte = 1024
const ignore = (): void => undefined
const full = async (): Promise<void> => await Promise.reject(new Error('disk full'))

describe('a body ends early', () => {
  test('when a chunk is refused: what is under way ends first, nothing more is handed on, and the stream stays open', async () => {
    const body = new PassThrough()
    const written = Promise.withResolvers<void>()
    const batches: number[] = []
    let isSettled = false
    const reading = readBatches(body, {
      firstBytes: 1,
      onChunk: (chunk) => {
        if (chunk.includes('x')) throw new Error('refused')
      },
      onBatch: async (batch) => {
        batches.push(batch.length)
        await written.promise
      },
    }).finally(() => (isSettled = true))
    const outcome = reading.then(
      () => 'read',
      (error: unknown) => String(error),
    )
    body.write('a')
    body.write('b')
    body.write('x')
    body.write('c')
    await new Promise((resolve) => setImmediate(resolve))
    expect(isSettled).toBe(false)
    written.resolve()
    expect(await outcome).toBe('Error: refused')
    expect({ batches, destroyed: body.destroyed }).toEqual({ batches: [1], destroyed: false })
    // What happens to it from now on is nobody's failure.
    body.destroy(new Error('later'))
    await new Promise((resolve) => setImmediate(resolve))
  })

  test('when a batch cannot be taken, also the last one', async () => {
    for (const firstBytes of [1, kibibyte]) {
      const reading = readBatches(Readable.from([Buffer.from('a')]), { firstBytes, onChunk: ignore, onBatch: full })
      await expect(reading).rejects.toThrow('disk full')
    }
  })

  test('when it breaks off', async () => {
    const body = new PassThrough()
    const reading = readBatches(body, { firstBytes: 1, onChunk: ignore, onBatch: async () => undefined })
    body.write('a')
    body.destroy()
    await expect(reading).rejects.toThrow('Premature close')
  })
})

describe('a body is handed on whole and in order', () => {
  test('with no more than two batches in memory, however slowly they are taken', async () => {
    const chunks = Array.from({ length: 100 }, (_none, index) => Buffer.alloc(64 * kibibyte, index))
    let arrived = 0
    let taken = 0
    let most = 0
    const order: number[] = []
    await readBatches(Readable.from(chunks), {
      firstBytes: 4 * kibibyte,
      onChunk: (chunk) => {
        arrived += chunk.length
        most = Math.max(most, arrived - taken)
      },
      onBatch: async (batch) => {
        await new Promise((resolve) => setImmediate(resolve))
        for (const chunk of batch) {
          taken += chunk.length
          order.push(chunk[0] ?? -1)
        }
      },
    })
    expect(order).toEqual(chunks.map((_chunk, index) => index))
    expect(most).toBeLessThanOrEqual(2 * 512 * kibibyte)
  })

  test('without gathering what comes in single bytes, and at once where that is all', async () => {
    const sizes: number[] = []
    const onBatch = async (batch: readonly Buffer[]): Promise<void> => void sizes.push(batch.length)
    await readBatches(Readable.from(Array.from({ length: 150 }, () => Buffer.from('a'))), {
      firstBytes: 4 * kibibyte,
      onChunk: ignore,
      onBatch,
    })
    expect(Math.max(...sizes)).toBe(64)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(150)
    await readBatches(Readable.from([]), { firstBytes: 1, onChunk: ignore, onBatch })
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(150)
  })
})
