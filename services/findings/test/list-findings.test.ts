import { type Finding, findingSorts, problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { insertManyFindings, nextOf } from './list-support.ts'
import {
  type FindingsUnderTest,
  type Principal,
  findingBody,
  newTenant,
  path,
  readFindings,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const readParts = z.array(z.looseObject({ finding_id: z.string() }))

async function get(principal: Principal, query = '') {
  return await service.call(principal, 'GET', `${path}${query}`)
}

async function list(principal: Principal, query = ''): Promise<Finding[]> {
  const answer = await get(principal, query)
  expect(answer.text).toMatch(answer.status === 200 ? /^\[/ : /^$/)
  return readFindings.parse(answer.json)
}

/** All pages, one after the other; `between` runs before each next one. */
async function walk(principal: Principal, query: string, between?: () => Promise<void>): Promise<Finding[]> {
  const all: Finding[] = []
  let next: string | undefined = query
  while (next !== undefined) {
    const answer = await get(principal, next)
    expect(answer.status).toBe(200)
    all.push(...readFindings.parse(answer.json))
    next = nextOf(answer.headers['link'])
    if (next !== undefined) await between?.()
  }
  return all
}

describe('listing findings', () => {
  test('is rejected if unsigned, signed with an unknown key, or without read:findings', async () => {
    const tenant = newTenant()
    expect((await fetch(service.url + path)).status).toBe(401)
    expect((await service.stranger.call(tenant, 'GET', path)).status).toBe(401)
    const answer = await get({ ...tenant, scopes: ['write:findings', 'read:universe'] })
    expect(answer.status).toBe(403)
    expect(answer.json).toMatchObject({ required_scope: 'read:findings' })
    expect((await get(tenant)).status).toBe(200)
  })

  test.each([
    ['?ownr=x', 'ownr'],
    ['?overdue=maybe', 'overdue'],
    ['?entity_id=x', 'entity_id'],
    ['?target_before=2026-02-30', 'target_before'],
    ['?q=x', 'q'],
    ['?type=info', 'type'],
    ['?Status=open', 'Status'],
    ['?limit=0', 'limit'],
    ['?limit=1001', 'limit'],
    ['?limit=ten', 'limit'],
    ['?limit=', 'limit'],
    ['?limit=1&limit=2', 'limit'],
    ['?status=opened', 'status'],
    ['?status=', 'status'],
    ['?severity=high,low,none', 'severity'],
    ['?updated_since=yesterday', 'updated_since'],
    ['?sort=title', 'sort'],
    ['?count=yes', 'count'],
    ['?cursor=', 'cursor'],
    ['?cursor=abc', 'cursor'],
    ['?cursor=W10', 'cursor'],
  ])('an invalid parameter is rejected: %s', async (query, parameter) => {
    const answer = await get(newTenant(), query)
    expect(answer.status).toBe(400)
    const { code, errors = [] } = problemSchema.parse(answer.json)
    expect(code).toBe('bad_request')
    expect(errors.map((error) => error.parameter)).toContain(parameter)
  })

  test('a cursor is valid only for its tenant, filter and sort', async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    await insertManyFindings(service, tenant, 5)
    await insertManyFindings(service, other, 5)
    const next = nextOf((await get(tenant, '?limit=2')).headers['link']) ?? ''
    expect((await get(tenant, next)).status).toBe(200)
    expect((await get(other, next)).status).toBe(400)
    expect((await get(tenant, `${next}&severity=high`)).status).toBe(400)
    expect((await get(tenant, `${next}&sort=-severity`)).status).toBe(400)
  })

  test('a forged cursor is rejected or harmless, and never causes a 5xx', async () => {
    const tenant = newTenant()
    await insertManyFindings(service, tenant, 5)
    const next = nextOf((await get(tenant, '?limit=2')).headers['link']) ?? ''
    const cursor = new URLSearchParams(next).get('cursor') ?? ''
    const [binding] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    const id = crypto.randomUUID()
    const places = [
      null,
      {},
      [],
      { value: 4, id },
      { value: '2026-01-01', id },
      { value: '0000-01-01T00:00:00.000Z', id },
      { value: 'infinity', id },
      { value: "'; select 1 --", id },
      { value: '2026-01-01T00:00:00.000Z', id: 'x' },
      { value: '2026-01-01T00:00:00.000Z', id, more: 1 },
    ]
    for (const place of places) {
      const forged = Buffer.from(JSON.stringify([binding, place])).toString('base64url')
      expect((await get(tenant, `?limit=2&cursor=${forged}`)).status).toBe(400)
    }
  })

  test('returns a bare array, newest first, with only findings of the tenant', async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    expect((await get(tenant)).text).toBe('[]')
    for (const title of ['one', 'two', 'three']) {
      await service.call(tenant, 'POST', path, { body: findingBody({ title }) })
      await service.call(other, 'POST', path, { body: findingBody({ title: `other ${title}` }) })
    }
    expect((await list(tenant)).map(({ title }) => title)).toEqual(['three', 'two', 'one'])
    expect((await list(other)).map(({ title }) => title)).toEqual(['other three', 'other two', 'other one'])
  })

  test('counts only on request, and only filtered findings', async () => {
    const tenant = newTenant()
    await insertManyFindings(service, tenant, 9)
    await insertManyFindings(service, newTenant(), 30)
    expect((await get(tenant)).headers['x-total-count']).toBeUndefined()
    expect((await get(tenant, '?count=false')).headers['x-total-count']).toBeUndefined()
    expect((await get(tenant, '?count=true&limit=2')).headers['x-total-count']).toBe('9')
    expect((await get(tenant, '?count=true&severity=critical')).headers['x-total-count']).toBe('2')
    expect((await get(tenant, '?count=true&external_id=none')).headers['x-total-count']).toBe('0')
  })

  test('the last page has no next link, even if it is full', async () => {
    const tenant = newTenant()
    await insertManyFindings(service, tenant, 4)
    expect((await get(tenant, '?limit=4')).headers['link']).toBeUndefined()
    const first = await get(tenant, '?limit=3')
    const second = await get(tenant, nextOf(first.headers['link']))
    expect(readFindings.parse(second.json)).toHaveLength(1)
    expect(second.headers['link']).toBeUndefined()
  })

  test.each(findingSorts)(
    'pages by %s are the whole list in its order, though findings arrive between them',
    async (sort) => {
      const tenant = newTenant()
      await insertManyFindings(service, tenant, 25)
      const whole = await list(tenant, `?sort=${sort}`)
      expect(whole).toHaveLength(25)
      expect(whole.map(({ id }) => id)).toEqual(sorted(whole, sort).map(({ id }) => id))
      const seen = await walk(tenant, `?sort=${sort}&limit=7`, async () => {
        await service.call(tenant, 'POST', path, { body: findingBody({ severity: 'critical' }) })
        await service.call(tenant, 'POST', path, { body: findingBody({ severity: 'low', target_date: '2026-02-01' }) })
      })
      const before = new Set(whole.map(({ id }) => id))
      expect(new Set(seen.map(({ id }) => id)).size).toBe(seen.length)
      expect(seen.filter(({ id }) => before.has(id))).toEqual(whole)
    },
  )

  test('filters by entity, owner, dates, type and text', async () => {
    const tenant = newTenant()
    const entity = crypto.randomUUID()
    const make = async (given: object) => {
      const answer = await service.call(tenant, 'POST', path, { body: { ...findingBody(), ...given } })
      expect(answer.status, answer.text).toBe(201)
      return readFindings.parse([answer.json])[0]?.title
    }
    const late = await make({
      title: 'Goods receipt 50% late',
      entity_ids: [crypto.randomUUID(), entity],
      owner: { email: 'Ada@Example.org' },
      identified_date: '2024-01-01',
      target_date: '2024-02-01',
      type: 'observation',
      source: 'regulator',
    })
    const [first] = readFindings.parse((await get(tenant)).json)
    const other = await make({
      title: 'Badges',
      condition: 'Shared_accounts',
      owner: { name: 'Bo' },
    })
    // That what is repeated has ended is shown elsewhere.
    await service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
      await tx.execute({
        text: `update findings.finding f set repeat_of_id = other.id from findings.finding other
          where f.tenant_id = $1 and f.title = 'Badges' and other.tenant_id = $1 and other.title <> 'Badges'`,
        values: [tenant.tenantId],
      })
    })
    const titles = async (query: string) => (await list(tenant, query)).map(({ title }) => title)
    for (const [query, expected] of [
      [`?entity_id=${entity}`, [late]],
      [`?entity_id=${crypto.randomUUID()}`, []],
      ['?owner=ada@example.org', [late]],
      ['?owner=BO', [other]],
      ['?overdue=true', [late]],
      ['?overdue=false', [other]],
      ['?repeat=true', [other]],
      ['?repeat=false', [late]],
      ['?identified_from=2024-01-01&identified_to=2024-01-01', [late]],
      ['?identified_from=2024-01-02', [other]],
      ['?target_before=2024-02-01', []],
      ['?target_before=2024-02-02', [late]],
      ['?target_after=2024-02-01', [other]],
      ['?target_after=0001-01-01&target_before=9999-12-31', [other, late]],
      ['?type=observation,exception', [late]],
      ['?source=regulator', [late]],
      ['?q=GOODS', [late]],
      ['?q=0%25', [late]],
      ['?q=d_a', [other]],
      ['?q=e_e', []],
      [`?q=${first?.reference}`, [late]],
      ['?q=receipt&repeat=true', []],
    ] as const) {
      expect(await titles(query), query).toEqual(expected)
      expect((await get(tenant, `${query}&count=true`)).headers['x-total-count'], query).toBe(String(expected.length))
    }
    expect(await list(newTenant(), `?entity_id=${entity}`)).toEqual([])
  })

  test('filters by one or several statuses and severities', async () => {
    const tenant = newTenant()
    await insertManyFindings(service, tenant, 8)
    const severities = async (query: string) => (await list(tenant, query)).map(({ severity }) => severity).toSorted()
    expect(await severities('?severity=high')).toEqual(['high', 'high'])
    expect(await severities('?severity=high,low')).toEqual(['high', 'high', 'low', 'low'])
    expect(await severities('?severity=high&severity=low')).toEqual(['high', 'high', 'low', 'low'])
    expect(await severities('?severity=high&status=draft')).toEqual(['high', 'high'])
    expect(await severities('?severity=high&status=open,closed')).toEqual([])
  })

  test('finds a finding by external_id, combined with other filters', async () => {
    const tenant = newTenant()
    await service.call(tenant, 'POST', path, { body: findingBody({ external_id: 'A', title: 'a' }) })
    await service.call(tenant, 'POST', path, { body: findingBody({ external_id: 'B', title: 'b' }) })
    expect((await list(tenant, '?external_id=A&limit=1')).map(({ title }) => title)).toEqual(['a'])
    expect(await list(tenant, '?external_id=A&status=open')).toEqual([])
    expect(await list(newTenant(), '?external_id=A')).toEqual([])
  })

  test('accepts several values of a filter, repeated or comma-separated, and matches any of them', async () => {
    const tenant = newTenant()
    const made: Finding[] = []
    for (const [external_id, name, at] of [
      ['A', 'Ada Lund', 'a'],
      ['B', 'Lund, Ben', 'b'],
      ['A,B', 'Cleo', 'c'],
    ]) {
      const body = findingBody({ external_id, owner: { name, email: `${at}@example.org` } })
      await service.call(tenant, 'POST', path, { body })
      made.push(...(await list(tenant, '?limit=1')))
    }
    const [a, b, c] = made.map(({ reference }) => reference)
    for (const [query, expected] of [
      // A key with a comma is one key.
      ['external_id=A,B', [c]],
      ['external_id=A&external_id=B', [b, a]],
      ['owner=ada%20lund,CLEO', [c, a]],
      ['owner=Lund,%20Ben', [b]],
      ['owner=a@example.org&owner=b@example.org', [b, a]],
      [`ref=${a},${c}`, [c, a]],
    ] as const) {
      expect(
        (await list(tenant, `?${query}`)).map(({ reference }) => reference),
        query,
      ).toEqual(expected)
    }
    for (const query of ['external_id=', 'owner=', 'ref=F-1,x']) {
      expect((await get(tenant, `?${query}`)).status, query).toBe(400)
    }
    const plan = { title: 'x', owner: { name: 'Ada' }, due_date: '2031-01-01' }
    for (const { id } of made) {
      await service.call(tenant, 'POST', `${path}/${id}/action-plans`, { body: plan })
      await service.call(tenant, 'POST', `${path}/${id}/recommendations`, { body: { text: 'x' } })
    }
    for (const of of ['action-plans', 'recommendations']) {
      const named = [`${made[0]?.id},ref:${b}`, 'ext:A,ext:B', `ref:${a}&finding_id=ext:B`, `${made[0]?.id}`]
      const counts = await Promise.all(
        named.map(async (ids) => {
          const { json } = await service.call(tenant, 'GET', `/api/v1/${of}?finding_id=${ids}`)
          return readParts.parse(json).map(({ finding_id: id }) => made.findIndex((finding) => finding.id === id))
        }),
      )
      expect(counts, of).toEqual([[1, 0], [1, 0], [1, 0], [0]])
      const theirs = await service.call(newTenant(), 'GET', `/api/v1/${of}?finding_id=${made[0]?.id}`)
      expect(theirs.json).toEqual([])
    }
    const { id: actor } = made[0]?.created_by ?? { id: '' }
    const logged = async (actors: string) =>
      readParts.parse((await service.call(tenant, 'GET', `/api/v1/remediation-log?actor=${actors}`)).json).length
    expect([await logged(`nobody&actor=${actor}`), await logged('nobody'), await logged(`x&actor=${actor}`)]).toEqual([
      9, 0, 9,
    ])
  })

  test.each(['title', 'condition', 'criteria', 'cause', 'consequence', 'corrective_action'])(
    'finds words in the %s',
    async (field) => {
      const tenant = newTenant()
      await service.call(tenant, 'POST', path, { body: { ...findingBody(), [field]: 'The lock was never changed.' } })
      await service.call(tenant, 'POST', path, { body: findingBody() })
      expect(await list(tenant, '?q=LOCK%20was')).toMatchObject([{ [field]: 'The lock was never changed.' }])
    },
  )

  test('has everything in the body with envelope=true, page by page', async () => {
    const tenant = newTenant()
    await insertManyFindings(service, tenant, 5)
    const pageSchema = z.strictObject({
      items: z.array(z.looseObject({ id: z.string() })),
      next: z.string().nullable(),
      next_cursor: z.string().nullable(),
      total: z.number().nullable(),
      next_updated_since: z.string(),
    })
    const ids: string[] = []
    const totals: (number | null)[] = []
    for (let next: string | null = '?envelope=true&limit=2&count=true&sort=created_at'; next !== null;) {
      const answer = await get(tenant, next)
      const page: z.infer<typeof pageSchema> = pageSchema.parse(answer.json)
      expect(page.next_updated_since).toBe(String(answer.headers['postern-next-updated-since']))
      ids.push(...page.items.map(({ id }) => id))
      totals.push(page.total)
      if (page.next !== null) expect(new URLSearchParams(page.next).get('cursor')).toBe(page.next_cursor)
      next = page.next
    }
    expect(ids).toEqual((await list(tenant, '?sort=created_at')).map(({ id }) => id))
    expect(totals).toEqual([5, null, null])
    const some = await get(tenant, '?envelope=true&fields=title&limit=1&sort=created_at')
    expect(some.json).toMatchObject({ items: [{ title: 'Finding 1' }] })
    const both = await get(tenant, '?envelope=true&format=csv')
    expect([both.status, problemSchema.parse(both.json).errors]).toMatchObject([400, [{ parameter: 'envelope' }]])
    expect((await get(tenant, '?format=pdf')).status).toBe(400)
  })
})

const ranks = { critical: 4, high: 3, medium: 2, low: 1 }

/** The order that a sort promises, computed apart from the database. */
function sorted(findings: readonly Finding[], sort: (typeof findingSorts)[number]): Finding[] {
  const keyOf = (finding: Finding): string => {
    switch (sort) {
      case 'severity':
      case '-severity':
        return String(ranks[finding.severity])
      case 'target_date':
      case '-target_date':
        return finding.target_date ?? ''
      case 'updated_at':
      case '-updated_at':
        return finding.updated_at
      case '-severity,target_date':
      case 'severity,-target_date':
        return `${9 - ranks[finding.severity]} ${finding.target_date}`
      default:
        return finding.created_at
    }
  }
  const up = findings.toSorted((a, b) => (`${keyOf(a)} ${a.id}` < `${keyOf(b)} ${b.id}` ? -1 : 1))
  const goesDown = sort === 'severity,-target_date' || (sort.startsWith('-') && !sort.includes(','))
  return goesDown ? up.toReversed() : up
}
