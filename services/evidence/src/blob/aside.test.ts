import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { createAside } from './aside.ts'

test('a name is given once: bytes that arrive late are no part of what was set aside later', async () => {
  const names: string[] = []
  const aside = createAside(
    {
      put: async (key) => {
        names.push(key)
        return await Promise.resolve({ isOver: true })
      },
      read: async () => await Promise.resolve(Readable.from([])),
      deleteAll: async () => await Promise.resolve(),
    },
    'a-tenant',
    'random',
  )
  for (let turn = 0; turn < 3; turn += 1) {
    await aside.put(Buffer.from('bytes'))
    await aside.put(Buffer.from('more'))
    await aside.clear()
  }
  expect(new Set(names).size).toBe(6)
})
