import { expect, test } from 'vitest'
import { collectEveryBytes, countPassedBytes, freeChunk } from './passed-bytes.ts'

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

test('the memory of a chunk is given back at once, unless others may share it', () => {
  const shared = Buffer.from(new ArrayBuffer(128 * 1024), 0, 64 * 1024)
  const small = Buffer.alloc(1024)
  freeChunk(shared)
  freeChunk(small)
  expect([shared.length, small.length]).toEqual([64 * 1024, 1024])
  const chunk = Buffer.allocUnsafeSlow(64 * 1024 * 1024)
  const before = process.memoryUsage().arrayBuffers
  freeChunk(chunk)
  expect(chunk.length).toBe(0)
  expect(before - process.memoryUsage().arrayBuffers).toBeGreaterThan(60 * 1024 * 1024)
})
