import { afterEach, expect, test, vi } from 'vitest'
import { asLines, heartbeat } from './list-route.ts'

afterEach(() => vi.restoreAllMocks())

/** The chunks of a list, between whose items so many milliseconds pass. */
async function chunksOf(items: readonly unknown[], betweenMs: number): Promise<string[]> {
  let time = 0
  vi.spyOn(performance, 'now').mockImplementation(() => time)
  async function* given(): AsyncGenerator {
    for (const item of items) {
      time += betweenMs
      yield await Promise.resolve(item)
    }
  }
  const chunks: string[] = []
  for await (const chunk of asLines(given())) chunks.push(chunk)
  return chunks
}

const sparse = [heartbeat, { a: 1 }, heartbeat, heartbeat, { a: 2 }, heartbeat]

test('lines end with a line feed each, without traces of skipped rows', async () => {
  expect((await chunksOf(sparse, 1000)).join('')).toBe('{"a":1}\n{"a":2}\n')
  expect((await chunksOf([heartbeat, heartbeat], 1000)).join('')).toBe('')
  expect((await chunksOf([], 1000)).join('')).toBe('')
})

test('a client that waits long for the next line receives blanks', async () => {
  const chunks = await chunksOf(sparse, 5000)
  expect(chunks).toEqual([' ', '{"a":1}', ' ', ' ', '\n{"a":2}', ' ', '\n'])
  const lines = chunks.join('').split('\n')
  expect(lines.pop()).toBe('')
  const values = lines.map((line): unknown => JSON.parse(line))
  expect(values).toEqual([{ a: 1 }, { a: 2 }])
})
