import { describe, expect, test } from 'vitest'
import { scripted, settle } from '../../test/builders.ts'
import { createSingleFlight, withDeadline } from './single-flight.ts'

function setUp() {
  const { call, calls: asked, answer } = scripted<string, string>()
  return { ...createSingleFlight(call), asked, answer }
}

describe('look-ups of one name', () => {
  test('are shared while one is in progress; the next request starts another', async () => {
    const { share, asked, answer } = setUp()
    const both = Promise.all([share('a'), share('a')])
    await answer('first')
    expect([await both, asked]).toEqual([['first', 'first'], ['a']])
    const later = share('a')
    await answer('second')
    expect([await later, asked]).toEqual(['second', ['a', 'a']])
  })

  test('that began before a request do not answer it without a lease; all such requests share the next one', async () => {
    const { share, shareNext, asked, answer } = setUp()
    const first = shareNext('a')
    const later = [shareNext('a'), shareNext('a')]
    await settle()
    expect(asked).toEqual(['a'])
    await answer('first')
    expect([await first, asked]).toEqual(['first', ['a', 'a']])
    const joined = share('a')
    const last = shareNext('a')
    await answer('second')
    expect([await Promise.all([...later, joined]), asked]).toEqual([
      ['second', 'second', 'second'],
      ['a', 'a', 'a'],
    ])
    await answer('third')
    expect(await last).toBe('third')
  })

  test('do not delay look-ups of another name', async () => {
    const { share, shareNext, asked, answer } = setUp()
    const all = Promise.all([share('a'), shareNext('b')])
    expect(asked).toEqual(['a', 'b'])
    await answer('of a')
    await answer('of b')
    expect(await all).toEqual(['of a', 'of b'])
  })
})

/** Timers that run out when told to. */
function fakeTimers() {
  const set = new Map<() => void, number>()
  const after = (ms: number, task: () => void) => {
    set.set(task, ms)
    return () => set.delete(task)
  }
  return { set, timers: { after } }
}

describe('an answer', () => {
  test('that does not arrive within 2.5 s is replaced by the late one', async () => {
    const { set, timers } = fakeTimers()
    const waiting = withDeadline(new Promise<string>(() => undefined), 'late', timers)
    expect([...set.values()]).toEqual([2500])
    for (const runOut of set.keys()) runOut()
    expect(await waiting).toBe('late')
  })

  test('that arrives or fails leaves no timer behind', async () => {
    const { set, timers } = fakeTimers()
    expect(await withDeadline(Promise.resolve('answer'), 'late', timers)).toBe('answer')
    await expect(withDeadline(Promise.reject(new Error('unthought of')), 'late', timers)).rejects.toThrow(
      'unthought of',
    )
    expect(set.size).toBe(0)
  })
})
