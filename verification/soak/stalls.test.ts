import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type Failure, type Stall, findStalls, excuseStalls, watchStalls } from './stalls.ts'

const stall: Stall = { from: 10_000, to: 12_000 }
const failed = (given: Partial<Failure> = {}): Failure => ({
  text: 'it',
  startedAt: 12_500,
  endedAt: 12_600,
  status: 503,
  code: 'auth_unavailable',
  ...given,
})

const apart = (failure: Failure, stalls: readonly Stall[] = [stall]) => excuseStalls([failure], stalls, 1000)

test('a 503 within three seconds of a stall is tolerated, and elsewhere it is a fault', () => {
  for (const given of [{}, { startedAt: 9000, endedAt: 10_100 }, { startedAt: 15_000, endedAt: 19_000 }]) {
    expect(apart(failed(given))).toEqual({ faults: [], ofStalls: ['it'] })
  }
  expect(apart(failed(), [])).toEqual({ faults: ['it'], ofStalls: [] })
  for (const given of [
    { startedAt: 15_001, endedAt: 15_002 },
    { startedAt: 9000, endedAt: 9999 },
  ]) {
    expect(apart(failed(given))).toEqual({ faults: ['it'], ofStalls: [] })
  }
})

test('a stall excuses no other failure', () => {
  for (const given of [
    { status: 500, code: 'internal_error' },
    { status: 502, code: 'bad_gateway' },
    { status: 503, code: undefined },
    { status: 0, code: undefined },
    { status: undefined, code: undefined },
  ]) {
    expect(excuseStalls([failed(given)], [stall], 1000)).toEqual({ faults: ['it'], ofStalls: [] })
  }
})

test('too many stalls are a fault, because the run could show nothing', () => {
  const many = Array.from({ length: 6 }, () => failed())
  expect(excuseStalls(many.slice(1), [stall], 1000).faults).toEqual([])
  expect(excuseStalls(many, [stall], 1000).faults).toEqual([expect.stringContaining('6 answers of 503')])
})

/** Looks four times a second at two processors, of whose 50 ticks some are idle and some are taken by the host. */
function stallsOf(looks: readonly { readonly idle: number; readonly stolen: number; readonly lateMs?: number }[]) {
  const look = findStalls()
  let now = { at: 0, all: 0, idle: 0, stolen: 0 }
  const found = [look(now)]
  for (const { idle, stolen, lateMs = 0 } of looks) {
    now = { at: now.at + 250 + lateMs, all: now.all + 50, idle: now.idle + idle, stolen: now.stolen + stolen }
    found.push(look(now))
  }
  return found.filter((one) => one !== undefined)
}

const times = <T>(count: number, one: T): T[] => Array.from({ length: count }, () => one)
const calm = { idle: 20, stolen: 5 }

test('a second in which the host takes time and no processor is idle is a stall', () => {
  const starved = { idle: 1, stolen: 20 }
  expect(stallsOf([calm, ...times(4, starved), calm])).toEqual([{ from: 250, to: 1250 }])
  expect(stallsOf([calm, ...times(3, starved), calm])).toEqual([])
})

test('a load that uses all processors is no stall, and neither is a host that leaves idle time', () => {
  expect(stallsOf([calm, ...times(40, { idle: 0, stolen: 15 }), calm])).toEqual([])
  expect(stallsOf([calm, ...times(40, { idle: 3, stolen: 40 }), calm])).toEqual([])
})

test('a sample that is half a second late is a stall', () => {
  expect(stallsOf([calm, { ...calm, lateMs: 499 }, calm])).toEqual([])
  expect(stallsOf([calm, { ...calm, lateMs: 500 }, calm])).toEqual([{ from: 250, to: 1000 }])
})

test('the probe reports that it was stopped, by the clock of its parent', async () => {
  const watch = await watchStalls()
  try {
    const seen = watch.next()
    const from = performance.now()
    process.kill(watch.pid, 'SIGSTOP')
    // It stands still for as long as a stall lasts at least, and for the look that it was about to make.
    await delay(800)
    process.kill(watch.pid, 'SIGCONT')
    const found = await seen
    expect(found.to).toBeGreaterThan(from + 700)
    expect(found.to).toBeLessThan(performance.now() + 50)
    expect(found.from).toBeGreaterThan(from - 1000)
    expect(watch.stalls).toEqual([found])
  } finally {
    await watch.stop()
  }
})
