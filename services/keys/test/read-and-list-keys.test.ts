import { apiKeyEventSchema, apiKeySchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type KeysUnderTest, administratorOf, newKey, newTenant, path, revoke, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

async function list(admin: Principal, query = '') {
  const answer = await service.call(admin, 'GET', `${path}${query}`)
  const next = /^<(.+)>; rel="next"$/.exec(answer.headers['link'] ?? '')?.[1]
  return { ...answer, keys: answer.status === 200 ? z.array(apiKeySchema).parse(answer.json) : [], next }
}

describe('listing keys is rejected', () => {
  test('for API keys and for people who are not administrators', async () => {
    const admin = await newTenant(service)
    expect((await list({ ...admin, roles: ['viewer'] })).status).toBe(403)
    expect((await list({ tenantId: admin.tenantId, kind: 'api_key', scopes: ['read:findings'] })).status).toBe(403)
    expect((await list(admin)).status).toBe(200)
  })

  test.each(['?state=dead', '?scope=all', '?limit=0', '?limit=1001', '?order=label', '?cursor=abc', '?label='])(
    'for %s',
    async (query) => {
      expect((await list(await newTenant(service), query)).status).toBe(400)
    },
  )

  test.each(['limit', 'count', 'cursor'])('with %s twice, and the problem says so', async (name) => {
    const answer = await service.call(await newTenant(service), 'GET', `${path}?${name}=1&${name}=2`)
    expect(answer).toMatchObject({
      status: 400,
      json: { errors: [{ parameter: name, code: 'repeated', detail: 'must occur once' }] },
    })
  })

  test('with the cursor of another tenant or another filter', async () => {
    const [admin, other] = [await newTenant(service), await newTenant(service)]
    for (const tenant of [admin, other]) for (let made = 0; made < 2; made += 1) await newKey(service, tenant)
    const { next = '' } = await list(admin, '?limit=1')
    const cursor = new URL(next, service.url).searchParams.get('cursor') ?? ''
    expect((await list(other, `?limit=1&cursor=${cursor}`)).status).toBe(400)
    expect((await list(admin, `?limit=1&state=active&cursor=${cursor}`)).status).toBe(400)
    expect((await list(admin, `?limit=1&cursor=${cursor}`)).keys).toHaveLength(1)
  })
})

describe('a list of keys', () => {
  test('is empty for a new tenant', async () => {
    expect((await list(await newTenant(service))).text).toBe('[]')
  })

  test('is complete over its pages, newest first, while keys are created', async () => {
    const admin = await newTenant(service)
    const made: string[] = []
    for (let count = 0; count < 7; count += 1) made.unshift((await newKey(service, admin)).id)
    const seen: string[] = []
    let target: string | undefined = `${path}?limit=3&count=true`
    let pages = 0
    while (target !== undefined) {
      const { keys, next, headers } = await list(admin, target.slice(path.length))
      if (pages === 0) expect(headers['x-total-count']).toBe('7')
      seen.push(...keys.map(({ id }) => id))
      await newKey(service, admin)
      target = next
      pages += 1
    }
    expect(seen).toEqual(made)
    expect(pages).toBe(3)
  })

  test('can be filtered by state, scope and label', async () => {
    const admin = await newTenant(service)
    const make = async (label: string, given: object = {}) => await newKey(service, admin, { label, ...given })
    await make('Export 100%', { scopes: ['read:findings', 'read:universe'] })
    const dead = await make('export_b', { scopes: ['*'] })
    await revoke(service, admin, dead.id)
    const soon = await make('Import', { scopes: ['admin:sync'] })
    await service.call(admin, 'POST', `${path}/${soon.id}/rotate`, { body: { overlap: '0s' } })
    const labels = async (query: string) => (await list(admin, query)).keys.map(({ label }) => label)
    expect(await labels('?state=active')).toEqual(['Import', 'Export 100%'])
    expect(await labels('?state=expired')).toEqual(['Import'])
    expect(await labels('?state=revoked,expired')).toEqual(['Import', 'export_b'])
    expect(await labels('?scope=admin:sync&scope=*&state=revoked')).toEqual(['export_b'])
    // A matching wildcard counts as well.
    await make('Wide', { scopes: ['read:*'] })
    expect(await labels('?scope=read:findings')).toEqual(['Wide', 'export_b', 'Export 100%'])
    expect(await labels('?scope=read:*')).toEqual(['Wide', 'export_b'])
    expect(await labels('?scope=write:evidence')).toEqual(['export_b'])
    expect(await labels('?label=EXPORT')).toEqual(['export_b', 'Export 100%'])
    expect(await labels('?label=100%25')).toEqual(['Export 100%'])
    expect(await labels('?label=t_b')).toEqual(['export_b'])
    expect(await labels('?label=%25')).toEqual(['Export 100%'])
    expect(await labels(`?label=${encodeURIComponent("' or true --")}`)).toEqual([])
  })
})

describe('a single key', () => {
  test('has an ETag and returns 304 while it is unchanged', async () => {
    const admin = await newTenant(service)
    const { id, etag } = await newKey(service, admin)
    const read = async () => await service.call(admin, 'GET', `${path}/${id}`, { headers: { 'if-none-match': etag } })
    expect(await read()).toMatchObject({ status: 304, text: '' })
    await revoke(service, admin, id)
    expect((await read()).status).toBe(200)
  })

  test.each([
    ['use', { 'findings.list': 1 }, 'last_used_at'],
    ['refusal', {}, 'last_refused_at'],
  ] as const)('has a new ETag after its last %s', async (_what, routes, member) => {
    const admin = await newTenant(service)
    const { id, etag } = await newKey(service, admin)
    const read = async (tag = etag) =>
      await service.call(admin, 'GET', `${path}/${id}`, { headers: { 'if-none-match': tag } })
    const at = Date.now()
    const use = { keyId: id, tenantId: admin.tenantId, address: '203.0.113.7', lastUsedAt: at, count: 1, routes }
    expect((await service.ask(internalPaths.usage, { uses: [use], denials: [] })).status).toBe(204)
    const changed = await read()
    expect(changed).toMatchObject({ status: 200, json: { version: 1, [member]: new Date(at).toISOString() } })
    expect((await read(changed.headers['etag'])).status).toBe(304)
  })
})

describe('another tenant’s key', () => {
  test('returns exactly what a missing key returns, for every operation that its owner can do', async () => {
    const [owner, other] = [await newTenant(service), await newTenant(service)]
    const key = await newKey(service, owner)
    const operations = [
      ['GET', '', undefined],
      ['GET', '/events', undefined],
      ['PATCH', '', { label: 'mine' }],
      ['POST', '/rotate', { overlap: '1h' }],
      ['POST', '/revoke', { reason: 'mine' }],
    ] as const
    const tryAll = async (principal: Principal, id: string) => {
      const answers = []
      for (const [method, suffix, body] of operations) {
        const headers = { 'if-match': '*', 'x-request-id': 'the-same-request' }
        const {
          status,
          text,
          headers: given,
        } = await service.call(principal, method, `${path}/${id}${suffix}`, { body, headers })
        answers.push({ status, text, headers: { ...given, date: '' } })
      }
      return answers
    }
    const theirs = await tryAll(other, key.id)
    expect(theirs).toEqual(await tryAll(other, crypto.randomUUID()))
    expect(theirs).toEqual(await tryAll(administratorOf(crypto.randomUUID()), key.id))
    expect(theirs.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404])
    expect((await tryAll(owner, key.id)).map(({ status }) => status)).toEqual([200, 200, 200, 201, 200])
  })

  test('is not listed or counted', async () => {
    const [owner, other] = [await newTenant(service), await newTenant(service)]
    await newKey(service, owner)
    expect(await list(other, '?count=true')).toMatchObject({ text: '[]', headers: { 'x-total-count': '0' } })
    expect(await list(owner, '?count=true')).toMatchObject({ headers: { 'x-total-count': '1' } })
  })
})

const to = (label: string) => ({ type: 'updated', detail: { changes: { label: { to: label } } } })

test('the audit trail is complete over its pages, newest first', async () => {
  const admin = await newTenant(service)
  const { id } = await newKey(service, admin)
  for (const label of ['a', 'b', 'c', 'd']) {
    await service.call(admin, 'PATCH', `${path}/${id}`, { body: { label }, headers: { 'if-match': '*' } })
  }
  const seen: unknown[] = []
  let target: string | undefined = `${path}/${id}/events?limit=2`
  while (target !== undefined) {
    const { json, headers } = await service.call(admin, 'GET', target)
    seen.push(...z.array(apiKeyEventSchema).parse(json))
    target = /^<(.+)>; rel="next"$/.exec(headers['link'] ?? '')?.[1]
  }
  expect(seen).toMatchObject([to('d'), to('c'), to('b'), to('a'), { type: 'created' }])
})
