import fc from 'fast-check'
import { expect, test } from 'vitest'
import { JsonText, contentOf, valueOf } from './json-text.ts'
import { collectEveryBytes } from './passed-bytes.ts'

test('a list of texts that are JSON already is sent as the list that it is read as, whatever stands in it', () => {
  fc.assert(
    fc.property(fc.array(fc.json({ stringUnit: 'binary' })), (items) => {
      const list = JsonText.list(items)
      expect(contentOf(list).toString()).toBe(`[${items.join(',')}]`)
      expect(valueOf(list)).toEqual(items.map((item): unknown => JSON.parse(item)))
    }),
  )
  expect(contentOf(JsonText.list([])).toString()).toBe('[]')
  expect(contentOf(JsonText.list(['"é \u2028 😀"', '{}'])).toString()).toBe('["é \u2028 😀",{}]')
})

test('pages that were sent do not gather: 256 MiB of them leave no more than a few steps of the collection', () => {
  const page = Array.from({ length: 100 }, () => JSON.stringify({ title: 'x'.repeat(1400) }))
  const before = process.memoryUsage().arrayBuffers
  let peak = 0
  for (let sent = 0; sent < 256 * 1024 * 1024;) {
    sent += contentOf(JsonText.list(page)).length
    peak = Math.max(peak, process.memoryUsage().arrayBuffers - before)
  }
  expect(peak).toBeGreaterThan(0)
  // Without the collection it is ten times as much.
  expect(peak).toBeLessThan(5 * collectEveryBytes)
})
