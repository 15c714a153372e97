import { expect, test } from 'vitest'
import { hasFewLinks } from './store.ts'

test('a hierarchy that there is not is small: no entity is asked whether it belongs to it', async () => {
  const nothing = { query: async () => await Promise.resolve([]), execute: async () => await Promise.resolve(0) }
  expect(await hasFewLinks(nothing, 'typo')).toBe(true)
})
