import { expect, test } from 'vitest'
import { unfinishedBytes } from './receive.ts'

test.each(['a', 'ü', '€', '𝄞'])('a chunk that ends within %s leaves its first bytes for the next one', (character) => {
  const text = Buffer.from(`before it ${character}`)
  const begun = 'before it '.length
  for (let end = begun; end <= text.length; end += 1) {
    const part = text.subarray(0, end)
    expect(unfinishedBytes(part)).toBe(end === text.length ? 0 : end - begun)
  }
})

test('of binary data, only a possible start of a character is left for the next chunk', () => {
  expect(unfinishedBytes(Buffer.from([0x80, 0x80, 0x80, 0x80]))).toBe(0)
  expect(unfinishedBytes(Buffer.from([0xff, 0xff]))).toBe(1)
  expect(unfinishedBytes(Buffer.from([]))).toBe(0)
})
