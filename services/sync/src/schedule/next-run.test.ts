import { describe, expect, test } from 'vitest'
import { nextRun, scheduleFault } from './next-run.ts'

const at = (cron: string, time_zone: string, after: string) =>
  nextRun({ cron, time_zone }, new Date(after))?.toISOString()

describe('a schedule', () => {
  test.each([
    [{ cron: '* * * * *', time_zone: 'UTC' }, 'cron'],
    [{ cron: '0,4 * * * *', time_zone: 'UTC' }, 'cron'],
    [{ cron: '59 23 * * *,', time_zone: 'UTC' }, 'cron'],
    [{ cron: '0 0 2 * * *', time_zone: 'UTC' }, 'cron'],
    [{ cron: '@daily', time_zone: 'UTC' }, 'cron'],
    [{ cron: '0 0 30 2 *', time_zone: 'UTC' }, 'cron'],
    [{ cron: '61 2 * * *', time_zone: 'UTC' }, 'cron'],
    [{ cron: '0 2 * * *', time_zone: 'Mars/Olympus' }, 'time_zone'],
    [{ cron: '0 2 * * *', time_zone: '+02:00' }, 'time_zone'],
  ])('%j is refused for its %s', (schedule, field) => {
    expect(scheduleFault(schedule, new Date('2026-01-01T00:00:00Z'))?.field).toBe(field)
  })

  test('of every five minutes, or once a night, is taken', () => {
    for (const cron of ['*/5 * * * *', '30 2 * * *', '0 6 1 * *']) {
      expect(scheduleFault({ cron, time_zone: 'Europe/Berlin' }, new Date('2026-01-01T00:00:00Z'))).toBeUndefined()
    }
  })

  test('keeps to the time of day when clocks change', () => {
    const nightly = (after: string) => at('0 6 * * *', 'Europe/Berlin', after)
    expect(nightly('2026-03-28T12:00:00Z')).toBe('2026-03-29T04:00:00.000Z')
    expect(nightly('2026-03-27T12:00:00Z')).toBe('2026-03-28T05:00:00.000Z')
    expect(nightly('2026-10-24T12:00:00Z')).toBe('2026-10-25T05:00:00.000Z')
    expect(at('0 6 * * *', 'America/New_York', '2026-03-07T12:00:00Z')).toBe('2026-03-08T10:00:00.000Z')
  })

  test('whose time of day is skipped is due that day all the same, and once', () => {
    const skipped = at('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z') ?? ''
    expect(skipped.slice(0, 10)).toBe('2026-03-29')
    expect(at('30 2 * * *', 'Europe/Berlin', skipped)).toBe('2026-03-30T00:30:00.000Z')
  })

  test('whose time of day comes twice is due once', () => {
    const first = at('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z') ?? ''
    expect(first.slice(0, 10)).toBe('2026-10-25')
    expect(at('30 2 * * *', 'Europe/Berlin', first)).toBe('2026-10-26T01:30:00.000Z')
  })

  test('of a place without daylight saving never moves', () => {
    expect(at('0 6 * * *', 'Asia/Kolkata', '2026-03-28T12:00:00Z')).toBe('2026-03-29T00:30:00.000Z')
  })
})
