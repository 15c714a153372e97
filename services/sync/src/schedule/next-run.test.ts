import { describe, expect, test } from 'vitest'
import { nextRun, scheduleFault } from './next-run.ts'

const at = (cron: string, time_zone: string, after: string) =>
  nextRun({ cron, time_zone }, new Date(after))?.toISOString()

const times = (cron: string, zone: string, after: string, count: number): string[] => {
  const found: string[] = []
  for (let last = after; found.length < count; last = found.at(-1) ?? '') found.push(at(cron, zone, last) ?? '')
  return found
}

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

  test('of every five minutes, or once a night, is accepted', () => {
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

  test.each([
    ['30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', '2026-03-29T01:00:00.000Z', '2026-03-30T00:30:00.000Z'],
    [
      '15 2 * * *',
      'Australia/Lord_Howe',
      '2026-10-03T00:00:00Z',
      '2026-10-03T15:30:00.000Z',
      '2026-10-04T15:15:00.000Z',
    ],
  ])('%s in %s, which clocks skip, is due once, right after the change', (cron, zone, after, ...due) => {
    expect(times(cron, zone, after, 2)).toEqual(due)
  })

  test.each([
    ['30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', '2026-10-25T00:30:00.000Z', '2026-10-26T01:30:00.000Z'],
    [
      '45 1 * * *',
      'Australia/Lord_Howe',
      '2026-04-04T00:00:00Z',
      '2026-04-04T14:45:00.000Z',
      '2026-04-05T15:15:00.000Z',
    ],
    ['30 23 * * *', 'America/Santiago', '2026-04-04T12:00:00Z', '2026-04-05T02:30:00.000Z', '2026-04-06T03:30:00.000Z'],
  ])('%s in %s, which occurs twice, is due only the first time', (cron, zone, after, ...due) => {
    expect(times(cron, zone, after, 2)).toEqual(due)
  })

  test.each([
    ['30 2,14 * * *', ['01:00', '12:30']],
    ['30 1,2 * * *', ['00:30', '01:00']],
    ['0,30 2 * * *', ['01:00']],
    ['*/20 2 * * *', ['01:00']],
    ['3 2,3 * * *', ['01:00', '01:03']],
    [
      '0 */2 * * *',
      ['01:00', '02:00', '04:00', '06:00', '08:00', '10:00', '12:00', '14:00', '16:00', '18:00', '20:00'],
    ],
  ])('%s has all its times on the day when clocks go forward, skipped ones right after the change', (cron, due) => {
    const found = times(cron, 'Europe/Berlin', '2026-03-28T23:30:00.000Z', due.length + 1)
    expect(found.slice(0, -1)).toEqual(due.map((time) => `2026-03-29T${time}:00.000Z`))
    // Midnight there.
    expect(Date.parse(found.at(-1) ?? '')).toBeGreaterThanOrEqual(Date.parse('2026-03-29T22:00:00Z'))
    expect(scheduleFault({ cron, time_zone: 'Europe/Berlin' }, new Date('2026-03-28T00:00:00Z'))).toBeUndefined()
  })

  test.each([
    ['0 2,14 * * *', ['00:00', '13:00']],
    ['0 2-4 * * *', ['00:00', '02:00', '03:00']],
    ['0,30 2 * * *', ['00:00', '00:30']],
    ['15 1,2 * * *', ['00:15']],
  ])('%s has each of its times once on the day when clocks go back', (cron, due) => {
    const found = times(cron, 'Europe/Berlin', '2026-10-24T23:30:00.000Z', due.length + 1)
    expect(found.slice(0, -1)).toEqual(due.map((time) => `2026-10-25T${time}:00.000Z`))
    expect(found.at(-1)).toMatch(/^2026-10-26T0/)
  })

  test('of a time that occurs twice is not due during the second occurrence', () => {
    expect(at('0,30 2 * * *', 'Europe/Berlin', '2026-10-25T01:10:00Z')).toBe('2026-10-26T01:00:00.000Z')
  })

  test.each([
    ['Europe/Berlin', '2026-03-29T00:00:00.000Z'],
    ['Europe/Berlin', '2026-10-24T23:30:00.000Z'],
    ['Australia/Lord_Howe', '2026-04-04T13:30:00.000Z'],
    ['Australia/Lord_Howe', '2026-10-03T14:00:00.000Z'],
  ])('every half hour it is due every half hour, in %s from %s on', (zone, from) => {
    const halfHours = Array.from({ length: 8 }, (_, n) =>
      new Date(Date.parse(from) + (n + 1) * 30 * 60_000).toISOString(),
    )
    expect(times('*/30 * * * *', zone, from, 8)).toEqual(halfHours)
  })

  test.each(['30 * * * *', '30 */1 * * *', '30 0-23 * * *', '30 0-11,12-23 * * *', '30 * 1-31 1-12 0-6'])(
    '%s is due in each hour, also in the one that occurs twice',
    (cron) => {
      const due = ['23:30', '00:30', '01:30', '02:30'].map(
        (time, index) => `2026-10-2${index === 0 ? 4 : 5}T${time}:00.000Z`,
      )
      expect(times(cron, 'Europe/Berlin', '2026-10-24T23:00:00.000Z', 4)).toEqual(due)
    },
  )

  test.each(['0 2 * * 1', '0 2 */1 * 1', '0 2 1-31 * 1', '0 2 1-31 1-12 MON'])('%s is due on Mondays', (cron) => {
    expect(times(cron, 'UTC', '2026-11-28T00:00:00.000Z', 2)).toEqual([
      '2026-11-30T02:00:00.000Z',
      '2026-12-07T02:00:00.000Z',
    ])
  })

  test('in a zone without daylight saving never shifts', () => {
    expect(at('0 6 * * *', 'Asia/Kolkata', '2026-03-28T12:00:00Z')).toBe('2026-03-29T00:30:00.000Z')
  })
})
