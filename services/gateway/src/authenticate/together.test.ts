import { describe, expect, test } from 'vitest'
import { scripted, settle } from '../../test/builders.ts'
import { together } from './together.ts'

function setUp(options: { most?: number; atOnce?: number } = {}) {
  const { call, calls: asked, answer, fail } = scripted<readonly string[], readonly string[]>()
  const ask = together(call, { most: 100, atOnce: 1, ...options })
  return { ask, asked, answers: { answer, fail } }
}

describe('questions that are put at the same time', () => {
  test('are asked together, and each gets its own answer', async () => {
    const { ask, asked, answers } = setUp()
    const both = Promise.all([ask('a'), ask('b')])
    await settle()
    expect(asked).toEqual([['a', 'b']])
    await answers.answer(['of a', 'of b'])
    expect(await both).toEqual(['of a', 'of b'])
  })

  test('are asked in several goes when they are more than one takes', async () => {
    const { ask, asked } = setUp({ most: 2, atOnce: 2 })
    void Promise.all(['a', 'b', 'c'].map(ask))
    await settle()
    expect(asked).toEqual([['a', 'b'], ['c']])
  })

  test('all fail when the answer does not come, and the next ones are asked all the same', async () => {
    const { ask, asked, answers } = setUp()
    const both = Promise.allSettled([ask('a'), ask('b')])
    await settle()
    await answers.fail(new Error('away'))
    expect((await both).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    const next = ask('c')
    await settle()
    await answers.answer(['of c'])
    expect(await next).toBe('of c')
    expect(asked).toEqual([['a', 'b'], ['c']])
  })

  test('fail alone where the answer leaves them out', async () => {
    const { ask, answers } = setUp()
    const both = Promise.allSettled([ask('a'), ask('b')])
    await settle()
    await answers.answer(['of a'])
    const [, left] = await both
    expect(await both).toMatchObject([{ value: 'of a' }, { status: 'rejected' }])
    expect(left).toMatchObject({ reason: new Error('fewer answers than questions') })
  })
})

test('a question that is put while one is under way is asked after it, never answered by it', async () => {
  const { ask, asked, answers } = setUp()
  const first = ask('a')
  await settle()
  const later = ask('a')
  await settle()
  expect(asked).toEqual([['a']])
  await answers.answer(['before'])
  await settle()
  expect(asked).toEqual([['a'], ['a']])
  await answers.answer(['after'])
  expect([await first, await later]).toEqual(['before', 'after'])
})
