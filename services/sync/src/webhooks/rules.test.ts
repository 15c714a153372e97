import { webhookSubscriptions } from '@postern/contracts'
import { expect, test } from 'vitest'
import { bodyOf, endpointPauseSeconds, isGivenUp, planDeliveries, retryInSeconds } from './rules.ts'

const committedAt = new Date('2026-11-21T09:30:00Z')
const change = (type: string, resourceId = 'r') => ({
  position: '1',
  ordinal: 1,
  type,
  resourceId,
  version: null,
  committedAt,
})

test('an endpoint gets the types that it subscribes to, in the order of their commits', () => {
  const subscribers = [
    { id: 'all', events: ['*'] },
    { id: 'keys', events: ['key.*'] },
    { id: 'one', events: ['key.revoked'] },
    { id: 'none', events: ['finding.updated'] },
  ]
  const changes = [change('key.created'), change('key.revoked'), change('evidence.uploaded'), change('key.unknown')]
  const { events, deliveriesOf } = planDeliveries(changes, subscribers)
  expect(events.map(({ type }) => type)).toEqual(['key.created', 'key.revoked', 'evidence.uploaded'])
  expect(deliveriesOf(['1', '2', '3']).map(({ endpointId, eventId }) => `${eventId} ${endpointId}`)).toEqual([
    '1 all',
    '1 keys',
    '2 all',
    '2 keys',
    '2 one',
    '3 all',
  ])
})

test('changes that no endpoint subscribes to are not stored', () => {
  expect(planDeliveries([change('key.created')], [{ id: 'a', events: ['finding.*'] }]).events).toEqual([])
})

test('an endpoint can subscribe to all events, to groups and to single types', () => {
  expect(webhookSubscriptions).toEqual(expect.arrayContaining(['*', 'key.*', 'key.revoked', 'sync_run.finished']))
  expect(webhookSubscriptions).not.toContain('webhook.*')
})

test('a delivery is retried after growing pauses, and given up after three days', () => {
  const seconds = Array.from({ length: 12 }, (_, attempts) => retryInSeconds(attempts + 1))
  expect(seconds).toEqual(seconds.toSorted((a, b) => a - b))
  expect(seconds[0]).toBe(5)
  expect(isGivenUp({ firstAttemptAt: null }, committedAt)).toBe(false)
  const later = (hours: number) => new Date(committedAt.getTime() + hours * 3_600_000)
  expect(isGivenUp({ firstAttemptAt: committedAt }, later(72))).toBe(false)
  expect(isGivenUp({ firstAttemptAt: committedAt }, later(73))).toBe(true)
})

test('a failing endpoint is tried at least once a minute', () => {
  expect([0, 1, 2, 3, 4, 50].map(endpointPauseSeconds)).toEqual([5, 10, 20, 40, 60, 60])
})

test('a body names the type, the time and the resource, and nothing else', () => {
  const event = { type: 'key.revoked', resourceId: 'k', version: null, occurredAt: committedAt }
  expect(JSON.parse(bodyOf(event, 'https://api.example'))).toEqual({
    type: 'key.revoked',
    timestamp: '2026-11-21T09:30:00.000Z',
    data: { id: 'k', version: null, url: 'https://api.example/api/v1/api-keys/k' },
  })
  expect(JSON.parse(bodyOf(event, undefined))).toMatchObject({ data: { url: '/api/v1/api-keys/k' } })
})
