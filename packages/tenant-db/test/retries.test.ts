import { DatabaseError } from 'pg'
import { expect, test } from 'vitest'
import { withRetries } from '../src/retries.ts'

const stateOf = (code: string | undefined): DatabaseError =>
  Object.assign(new DatabaseError('said by the server', 1, 'error'), { code })

/** Returns how often a change was tried that fails `failures` times, and its final error. */
async function tries(error: Error, failures: number): Promise<{ tried: number; ended?: unknown }> {
  let tried = 0
  try {
    await withRetries(async () => {
      tried += 1
      if (tried <= failures) throw error
    })
    return { tried }
  } catch (ended) {
    return { tried, ended }
  }
}

test('a successful change runs once', async () => {
  expect(await tries(stateOf('23505'), 0)).toEqual({ tried: 1 })
})

test.each(['42710', '23505', '40P01', 'XX000'])(
  'a change that fails with %s is retried five times and then fails',
  async (state) => {
    const error = stateOf(state)
    expect(await tries(error, 1)).toEqual({ tried: 2 })
    expect(await tries(error, 5)).toEqual({ tried: 6 })
    const { tried, ended } = await tries(error, 100)
    expect(tried).toBe(6)
    expect(ended).toBe(error)
  },
)

test.each([
  ['another state', stateOf('42501')],
  ['no state', stateOf(undefined)],
  ['an error from elsewhere', Object.assign(new Error('ours'), { code: '23505' })],
])('a change that fails with %s is not retried', async (_what, error) => {
  const { tried, ended } = await tries(error, 100)
  expect(tried).toBe(1)
  expect(ended).toBe(error)
})
