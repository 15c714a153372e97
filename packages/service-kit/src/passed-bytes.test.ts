import { expect, test } from 'vitest'
import { collectEveryBytes, countPassedBytes } from './passed-bytes.ts'

test('chunks that have passed do not gather: 256 MiB of them leave no more than a few steps of the collection', () => {
  const chunkBytes = 64 * 1024
  const before = process.memoryUsage().arrayBuffers
  let peak = 0
  for (let sent = 0; sent < 256 * 1024 * 1024; sent += chunkBytes) {
    const chunk = new Uint8Array(chunkBytes)
    countPassedBytes(chunk.byteLength)
    if (sent % (1024 * 1024) === 0) peak = Math.max(peak, process.memoryUsage().arrayBuffers - before)
  }
  expect(peak).toBeGreaterThan(0)
  expect(peak).toBeLessThan(3 * collectEveryBytes)
})
