import { describe, expect, test } from 'vitest'
import { fakeClocks, scripted, settle } from '../../test/builders.ts'
import { createBatcher } from './batch-requests.ts'

function setUp(options: { maxBatch?: number; maxConcurrent?: number; maxWaiting?: number } = {}) {
  const clocks = fakeClocks()
  const { call, calls: asked, answer, fail } = scripted<readonly string[], readonly string[]>()
  const ask = createBatcher(call, {
    maxBatch: 100,
    maxConcurrent: 1,
    maxWaiting: 100,
    maxWaitMs: 2500,
    now: clocks.monotonic,
    ...options,
  })
  return { ask, asked, clocks, answers: { answer, fail } }
}

describe('concurrent inputs', () => {
  test('are sent together, and each gets its own answer', async () => {
    const { ask, asked, answers } = setUp()
    const both = Promise.all([ask('a'), ask('b')])
    await settle()
    expect(asked).toEqual([['a', 'b']])
    await answers.answer(['of a', 'of b'])
    expect(await both).toEqual(['of a', 'of b'])
  })

  test('are sent in several batches if they are too many for one', async () => {
    const { ask, asked } = setUp({ maxBatch: 2, maxConcurrent: 2 })
    void Promise.all(['a', 'b', 'c'].map(ask))
    await settle()
    expect(asked).toEqual([['a', 'b'], ['c']])
  })

  test('all fail if their batch fails, and the next ones are still sent', async () => {
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

  test('fail separately if the answer omits them', async () => {
    const { ask, answers } = setUp()
    const both = Promise.allSettled([ask('a'), ask('b')])
    await settle()
    await answers.answer(['of a'])
    const [, left] = await both
    expect(await both).toMatchObject([{ value: 'of a' }, { status: 'rejected' }])
    expect(left).toMatchObject({ reason: new Error('the batch has fewer answers than inputs') })
  })
})

test('an input that arrives during a batch is sent after it, and never answered by it', async () => {
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

describe('while answers are pending', () => {
  test('only a limited number waits; further inputs are rejected at once', async () => {
    const { ask, asked } = setUp({ maxWaiting: 2 })
    void ask('under way')
    await settle()
    void Promise.all([ask('a'), ask('b')])
    await expect(ask('c')).rejects.toThrow('too many requests wait to be sent')
    expect(asked).toEqual([['under way']])
  })

  test('an input that has waited too long is dropped', async () => {
    const { ask, asked, answers, clocks } = setUp({ maxWaiting: 2 })
    const underWay = ask('under way')
    await settle()
    const late = Promise.allSettled([ask('a'), ask('b')])
    clocks.pass(2500)
    const withDeadline = [ask('c'), ask('d')]
    await expect(ask('e')).rejects.toThrow('too many requests wait to be sent')
    const reason = new Error('the request waited too long to be sent')
    expect(await late).toMatchObject([{ reason }, { reason }])
    clocks.pass(2499)
    await answers.answer(['of under way'])
    expect(await underWay).toBe('of under way')
    expect(asked).toEqual([['under way'], ['c', 'd']])
    await answers.answer(['of c', 'of d'])
    expect(await Promise.all(withDeadline)).toEqual(['of c', 'of d'])
  })

  test('inputs that waited too long reject when the current batch fails', async () => {
    const { ask, asked, answers, clocks } = setUp()
    const both = Promise.allSettled([ask('a'), settle().then(async () => await ask('b'))])
    await settle()
    await settle()
    clocks.pass(2500)
    await answers.fail()
    expect((await both).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(asked).toEqual([['a']])
  })
})
