import { routeTable } from '@postern/contracts'
import { type UsageReport, usageReportSchema } from '@postern/contracts/internal'
import { expect, test } from 'vitest'
import { exchangeOf, keyRecord, personPrincipal, scripted, silent } from '../test/builders.ts'
import { keyPrincipal } from './authenticate/principal.ts'
import { createUsage } from './usage.ts'

const one = keyPrincipal(keyRecord())
const route = routeTable.find(({ id }) => id === 'findings.list')

function setUp() {
  const keys = scripted<UsageReport, void>()
  let now = 1000
  const usage = createUsage({ keys: { reportUsage: keys.call }, now: () => now, logger: silent })
  return { keys, usage, at: (ms: number) => void (now = ms) }
}

const asked = (address: string, requestId = 'request-id-1') => exchangeOf({ route, address, requestId })

test('refusals of a key are reported by reason, route and address, with the last requests', () => {
  const { keys, usage, at } = setUp()
  usage.refused(one, asked('192.0.2.1', 'request-id-1'), 'insufficient_scope')
  at(2000)
  usage.refused(one, asked('192.0.2.1', 'request-id-2'), 'insufficient_scope')
  usage.refused(one, { ...asked('192.0.2.2', 'request-id-3'), route: undefined }, 'not_found')
  void usage.flush()
  expect(usageReportSchema.parse(keys.calls[0]).refusals).toEqual([
    {
      keyId: one.id,
      tenantId: one.tenantId,
      counts: [
        {
          address: '192.0.2.1',
          route: 'findings.list',
          code: 'insufficient_scope',
          count: 2,
          firstAt: 1000,
          lastAt: 2000,
        },
        { address: '192.0.2.2', route: null, code: 'not_found', count: 1, firstAt: 2000, lastAt: 2000 },
      ],
      recent: [
        ['request-id-1', 1000, '192.0.2.1', 'findings.list', 'insufficient_scope'],
        ['request-id-2', 2000, '192.0.2.1', 'findings.list', 'insufficient_scope'],
        ['request-id-3', 2000, '192.0.2.2', null, 'not_found'],
      ].map(([requestId, time, address, of, code]) => ({
        requestId,
        at: time,
        address,
        route: of,
        code,
        method: 'GET',
      })),
    },
  ])
})

test('refusals of people, and those that say nothing about the caller, are not counted', async () => {
  const { keys, usage } = setUp()
  const person = personPrincipal({ subject: 'ada', name: 'Ada', roles: [], expiresAt: 9e12 }, keyRecord())
  usage.refused(person, asked('192.0.2.1'), 'role_required')
  usage.refused(one, asked('192.0.2.1'), 'overloaded')
  await usage.flush()
  expect(keys.calls).toEqual([])
})

test('a key has at most twenty named counts and a hundred refusals in a report; the rest has no address', () => {
  const { keys, usage } = setUp()
  for (let host = 0; host < 150; host += 1)
    usage.refused(one, asked(`192.0.2.${host}`, `request-${host}`), 'key_revoked')
  void usage.flush()
  const [line] = usageReportSchema.parse(keys.calls[0]).refusals ?? []
  expect(line?.counts).toHaveLength(21)
  expect(line?.counts.at(-1)).toMatchObject({ address: null, route: null, code: 'key_revoked', count: 130 })
  expect(line?.recent.map(({ requestId }) => requestId)).toEqual(
    Array.from({ length: 100 }, (_none, at) => `request-${at + 50}`),
  )
})

test('refusals of all keys together are bounded in memory; further ones are counted without names', async () => {
  const { keys, usage } = setUp()
  const principals = Array.from({ length: 1100 }, () => keyPrincipal(keyRecord()))
  for (const principal of principals)
    for (let times = 0; times < 100; times += 1) usage.refused(principal, asked('192.0.2.1'), 'key_revoked')
  const flushed = usage.flush()
  for (let left = 22; left > 0; left -= 1) await keys.answer()
  await flushed
  const lines = keys.calls.flatMap(({ refusals = [] }) => refusals)
  expect(lines.flatMap(({ counts }) => counts).reduce((sum, { count }) => sum + count, 0)).toBe(110_000)
  const named = lines.flatMap(({ counts }) => counts.filter(({ address }) => address !== null))
  expect(named.length + lines.flatMap(({ recent }) => recent).length).toBe(100_000)
  // Reported ones no longer count.
  usage.refused(one, asked('192.0.2.1'), 'key_revoked')
  void usage.flush()
  expect(keys.calls.at(-1)?.refusals?.[0]?.counts[0]?.address).toBe('192.0.2.1')
})

test('a failed report is merged into the next', async () => {
  const { keys, usage, at } = setUp()
  usage.refused(one, asked('192.0.2.1', 'request-id-1'), 'key_revoked')
  const failed = usage.flush()
  at(3000)
  usage.refused(one, asked('192.0.2.1', 'request-id-2'), 'key_revoked')
  await keys.fail()
  await failed
  void usage.flush()
  const [line] = keys.calls[1]?.refusals ?? []
  expect(line?.counts).toMatchObject([{ count: 2, firstAt: 1000, lastAt: 3000 }])
  expect(line?.recent.map(({ requestId }) => requestId)).toEqual(['request-id-1', 'request-id-2'])
})
