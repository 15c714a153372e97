import fc from 'fast-check'
import { expect, test } from 'vitest'
import { JsonText, contentOf, valueOf } from './json-text.ts'

test('a list of JSON texts is sent unchanged, whatever their content', () => {
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
