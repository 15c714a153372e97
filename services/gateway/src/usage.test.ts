import { type UsageReport, usageReportSchema } from '@postern/contracts/internal'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { keyRecord, scripted, silent, personPrincipal } from '../test/builders.ts'
import { keyPrincipal } from './authenticate/principal.ts'
import { ContentRefusedError } from './authenticate/keys-client.ts'
import { createUsage } from './usage.ts'

function setUp() {
  const keys = scripted<UsageReport, void>()
  let now = 1000
  const usage = createUsage({ keys: { reportUsage: keys.call }, now: () => now, logger: silent })
  return { keys, usage, at: (ms: number) => void (now = ms) }
}

const hours = (count: number) => 1000 + count * 3_600_000
const one = keyPrincipal(keyRecord())
const other = keyPrincipal(keyRecord())

describe('a report of usage', () => {
  test('counts each key and address once, with the last time and its routes', async () => {
    const { keys, usage, at } = setUp()
    usage.used(one, '192.0.2.1', 'findings.list')
    at(2000)
    usage.used(one, '192.0.2.1', 'findings.list')
    usage.used(one, '192.0.2.2', 'findings.list')
    usage.used(other, '192.0.2.1', 'findings.list')
    usage.denied(one, '192.0.2.3', 'revoked')
    usage.denied(one, '192.0.2.3', 'revoked')
    const flushed = usage.flush()
    expect(keys.calls[0]?.uses).toHaveLength(3)
    expect(keys.calls[0]?.uses).toContainEqual({
      keyId: one.id,
      tenantId: one.tenantId,
      address: '192.0.2.1',
      lastUsedAt: 2000,
      count: 2,
      routes: { 'findings.list': 2 },
    })
    await keys.answer()
    expect(keys.calls[1]?.denials).toEqual([
      { keyId: one.id, tenantId: one.tenantId, address: '192.0.2.3', reason: 'revoked', at: 2000, count: 2 },
    ])
    await keys.answer()
    await flushed
    await usage.flush()
    expect(keys.calls).toHaveLength(2)
  })

  test('reports each person once with the latest details, also after a failed report', async () => {
    const { keys, usage, at } = setUp()
    const token = { subject: 'ada', name: 'Ada Lund', roles: ['viewer' as const], expiresAt: 9e12 }
    const tenant = keyRecord()
    usage.used(personPrincipal(token, tenant), '192.0.2.1', 'gateway.whoami')
    const failed = usage.flush()
    at(2000)
    usage.used(personPrincipal({ ...token, roles: ['admin'] }, tenant), '192.0.2.1', 'keys.list')
    usage.used(personPrincipal({ ...token, subject: 'x'.repeat(256) }, tenant), '192.0.2.1', 'keys.list')
    await keys.fail()
    await failed
    void usage.flush()
    expect(keys.calls[1]).toEqual({
      uses: [],
      denials: [],
      people: [{ tenantId: tenant.tenantId, id: 'ada', name: 'Ada Lund', roles: ['admin'], lastSeenAt: 2000 }],
    })
  })

  test('is late once uses of keys cannot be reported for twelve hours, until they are', async () => {
    const { keys, usage, at } = setUp()
    usage.denied(one, '192.0.2.1', 'revoked')
    at(hours(24))
    expect(usage.isLate()).toBe(false)
    at(1000)
    usage.used(one, '192.0.2.1', 'findings.list')
    at(hours(6))
    const failed = usage.flush()
    await keys.fail()
    await failed
    // Another use of the same key does not count as the first one.
    usage.used(one, '192.0.2.1', 'findings.list')
    at(hours(12) - 1)
    expect(usage.isLate()).toBe(false)
    at(hours(12))
    expect(usage.isLate()).toBe(true)
    const sent = usage.flush()
    await keys.answer()
    await keys.answer()
    await sent
    expect(usage.isLate()).toBe(false)
  })

  test('that fails is merged into the next', async () => {
    const { keys, usage, at } = setUp()
    usage.used(one, '192.0.2.1', 'findings.list')
    const failed = usage.flush()
    usage.used(one, '192.0.2.1', 'findings.list')
    at(5000)
    usage.used(one, '192.0.2.1', 'findings.get')
    await keys.fail()
    await failed
    void usage.flush()
    expect(keys.calls[1]?.uses).toEqual([
      {
        keyId: one.id,
        tenantId: one.tenantId,
        address: '192.0.2.1',
        lastUsedAt: 5000,
        count: 3,
        routes: { 'findings.list': 2, 'findings.get': 1 },
      },
    ])
  })

  test('contains one kind of lines, so recorded lines are not sent again if another kind fails', async () => {
    const { keys, usage } = setUp()
    usage.used(one, '192.0.2.1', 'findings.list')
    usage.denied(one, '192.0.2.3', 'revoked')
    usage.used(
      personPrincipal({ subject: 'ada', name: 'Ada', roles: [], expiresAt: 9e12 }, keyRecord()),
      '192.0.2.1',
      'x',
    )
    const failed = usage.flush()
    await keys.answer()
    await keys.fail()
    await failed
    const repeated = usage.flush()
    await keys.answer()
    await keys.answer()
    await repeated
    const sizes = keys.calls.map(({ uses, denials, people = [] }) => [uses.length, denials.length, people.length])
    expect(sizes).toEqual([
      [1, 0, 0],
      [0, 1, 0],
      [0, 1, 0],
      [0, 0, 1],
    ])
  })

  test('contains no more lines than the keys service records at once; the next one has the rest', async () => {
    const { keys, usage } = setUp()
    for (let host = 0; host < 600; host += 1) usage.used(one, `10.0.${host >> 8}.${host & 255}`, 'findings.list')
    const flushed = usage.flush()
    await keys.answer()
    await keys.answer()
    await flushed
    expect(keys.calls.map(({ uses }) => uses.length)).toEqual([500, 100])
  })
})

function addressesOf({ uses, denials }: UsageReport): string[] {
  return [...uses, ...denials].map(({ address }) => address)
}

/** A keys service that takes no report with one of these addresses. */
function setUpWithout(...never: readonly string[]) {
  const recorded: string[] = []
  const sent: UsageReport[] = []
  const reportUsage = async (report: UsageReport): Promise<void> => {
    sent.push(report)
    if (addressesOf(report).some((address) => never.includes(address))) throw new ContentRefusedError('never')
    recorded.push(...addressesOf(report), ...(report.people ?? []).map(({ id }) => id))
  }
  return { recorded, sent, usage: createUsage({ keys: { reportUsage }, now: () => 1000, logger: silent }) }
}

describe('a line that the keys service always rejects', () => {
  test('does not delay other lines, and is not sent again', async () => {
    const { recorded, sent, usage } = setUpWithout('bad')
    for (const address of ['192.0.2.1', 'bad', '192.0.2.2', '192.0.2.3']) usage.used(one, address, 'findings.list')
    usage.denied(other, '192.0.2.4', 'revoked')
    usage.used(personPrincipal({ subject: 'ada', name: 'Ada', roles: [], expiresAt: 9e12 }, keyRecord()), '', 'x')
    await usage.flush()
    expect(recorded.toSorted()).toEqual(['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', 'ada'])
    const before = sent.length
    await usage.flush()
    expect(sent).toHaveLength(before)
  })

  test('is kept if no other line was accepted, because the keys service may be at fault', async () => {
    const { recorded, sent, usage } = setUpWithout('bad')
    usage.used(one, 'bad', 'findings.list')
    usage.denied(other, '192.0.2.4', 'revoked')
    await usage.flush()
    expect(recorded).toEqual(['192.0.2.4'])
    await usage.flush()
    expect(sent.at(-1)?.uses).toHaveLength(1)
  })

  test('among hundreds ends the search in one report; later reports find it', async () => {
    const never = Array.from({ length: 500 }, (_none, host) => `bad ${host}`)
    const { recorded, sent, usage } = setUpWithout(...never)
    for (const address of never) usage.used(one, address, 'findings.list')
    await usage.flush()
    expect(sent.length).toBeLessThan(100)
    usage.used(one, '192.0.2.1', 'findings.list')
    for (let turn = 0; turn < 2; turn += 1) await usage.flush()
    expect(recorded).toEqual(['192.0.2.1'])
    const before = sent.length
    await usage.flush()
    expect(sent).toHaveLength(before)
  })
})

test('the lines between two reports are limited', () => {
  const { keys, usage } = setUp()
  for (let host = 0; host < 100_100; host += 1) usage.used(one, `address ${host}`, 'findings.list')
  void usage.flush()
  expect(keys.calls[0]?.uses).toHaveLength(500)
})

const reasonsOf = (reports: readonly UsageReport[]) =>
  reports.flatMap(({ denials: lines }) => lines.map(({ reason }) => reason))

describe('a keys service of the previous release, which does not know refusals for a missing scope,', () => {
  const { denials, ...others } = usageReportSchema.shape
  const olderSchema = z.strictObject({
    ...others,
    denials: z.array(denials.element.extend({ reason: z.enum(['expired', 'revoked', 'address']) })),
  })

  function setUpOlder() {
    const recorded: UsageReport[] = []
    let isOld = true
    const reportUsage = async (report: UsageReport): Promise<void> => {
      if (!(isOld ? olderSchema : usageReportSchema).safeParse(report).success)
        throw new ContentRefusedError('not known')
      recorded.push(report)
    }
    const usage = createUsage({ keys: { reportUsage }, now: () => 1000, logger: silent })
    return { recorded, usage, upgrade: () => void (isOld = false) }
  }

  test('records all uses and the refusals that it knows', async () => {
    const { recorded, usage } = setUpOlder()
    for (let host = 0; host < 200; host += 1) usage.denied(one, `192.0.2.${host}`, 'scope')
    usage.used(one, '192.0.2.1', 'findings.list')
    usage.denied(other, '192.0.2.1', 'revoked')
    for (let flush = 0; flush < 20; flush += 1) await usage.flush()
    expect(recorded.flatMap(({ uses }) => uses)).toHaveLength(1)
    expect(reasonsOf(recorded)).toEqual(['revoked'])
  })

  test('gets the other refusals once it has this release', async () => {
    const { recorded, usage, upgrade } = setUpOlder()
    usage.denied(one, '192.0.2.1', 'scope')
    await usage.flush()
    expect(recorded).toEqual([])
    upgrade()
    await usage.flush()
    expect(reasonsOf(recorded)).toEqual(['scope'])
  })
})
