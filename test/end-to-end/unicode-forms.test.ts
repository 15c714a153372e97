import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { type RequestOptions, send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'

// One text in two forms that look the same: composed (NFC), and decomposed as macOS writes it (NFD).
const nfc = 'M\u00fcnchen'
const nfd = 'Mu\u0308nchen'
const forms = [
  ['NFD', 'NFC', nfd, nfc],
  ['NFC', 'NFD', nfc, nfd],
] as const
const query = encodeURIComponent

let issuer: RunningIssuer
let stack: TestStack
let gateway: string

beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({ env: { POSTERN_OIDC_ISSUER: issuer.url } })
  gateway = stack.gateways[0] ?? ''
})

afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

async function newCaller() {
  const tenant = await stack.createTenant()
  const { key } = await stack.createKey(tenant, { scopes: ['*'] })
  const call = async (method: 'GET' | 'POST' | 'PATCH', path: string, options: RequestOptions = {}) => {
    const answer = await send(gateway, path, { key, method, ...options })
    expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300)
    return answer.json
  }
  return { tenant, call }
}

const named = z.array(z.object({ name: z.string(), external_id: z.string().nullable() }))
const identified = z.object({ id: z.string() })
const entity = (key: string, name: string) => ({ external_id: key, name, type: 'process' })

describe.each(forms)('a text that was sent in %s and is searched in %s', (_sent, _asked, sent, asked) => {
  test('is found by searches and filters', async () => {
    const { call, tenant } = await newCaller()
    const token = await issuer.issue({ tenantId: tenant.id, roles: ['auditor'], expiresInSeconds: 3600 })
    const body = { title: `Vault ${sent}`, condition: 'As seen.', severity: 'low', owner: { name: sent } }
    await call('POST', '/api/v1/findings', { body: { ...body, external_id: sent } })
    await call('POST', '/api/v1/sync/entities', { body: [{ ...entity('1', sent), owner: { name: sent } }] })
    const evidence = { body: 'a', headers: { 'content-type': 'text/plain' } }
    await call('POST', `/api/v1/evidence?file_name=${query(sent)}.txt&description=${query(sent)}`, evidence)
    for (const path of [
      `/api/v1/findings?q=${query(asked)}`,
      `/api/v1/findings?owner=${query(asked)}`,
      `/api/v1/entities?q=${query(asked)}`,
      `/api/v1/entities?owner=${query(asked)}`,
    ]) {
      expect([path, z.array(z.unknown()).parse(await call('GET', path)).length]).toEqual([path, 1])
    }
    const asAuditor = { headers: { authorization: `Bearer ${token}` } }
    const files = await send(gateway, `/api/v1/evidence-files?q=${query(asked)}`, asAuditor)
    expect([files.status, files.json]).toMatchObject([200, [{ file_name: `${nfc}.txt`, description: nfc }]])
  })

  test('is one external id, in a path, a filter, a push and a bulk request', async () => {
    const { call } = await newCaller()
    await call('POST', '/api/v1/sync/entities', { body: [entity(sent, 'First')] })
    await call('POST', '/api/v1/sync/entities', { body: [entity(asked, 'Second')] })
    expect(named.parse(await call('GET', '/api/v1/entities'))).toMatchObject([{ name: 'Second', external_id: nfc }])
    const inBase64 = Buffer.from(asked).toString('base64url')
    for (const address of [`ext:${query(asked)}`, `ext64:${inBase64}`]) {
      expect(await call('GET', `/api/v1/entities/${address}`)).toMatchObject({ name: 'Second' })
    }
    expect(named.parse(await call('GET', `/api/v1/entities?external_id=${query(asked)}`))).toHaveLength(1)
    const finding = { external_id: sent, title: 'First', condition: 'As seen.', severity: 'low' }
    await call('POST', '/api/v1/findings', { body: finding })
    await call('POST', '/api/v1/findings/bulk', { body: { items: [{ external_id: asked, title: 'Second' }] } })
    const titles = z.array(z.object({ title: z.string() }))
    expect(titles.parse(await call('GET', '/api/v1/findings'))).toMatchObject([{ title: 'Second' }])
  })

  test('identifies the user of an identity provider', async () => {
    const { call } = await newCaller()
    const headers = { 'content-type': 'application/scim+json' }
    const body = { userName: `${sent}@x.example`, displayName: sent, externalId: sent }
    await call('POST', '/scim/v2/Users', { body, headers })
    const total = z.object({ totalResults: z.number() })
    // Unchanged, and with JSON escapes.
    const escaped = JSON.stringify(asked).replaceAll(
      /[^ -~]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
    for (const text of [JSON.stringify(asked), escaped]) {
      const path = `/scim/v2/Users?filter=${query(`displayName eq ${text} and externalId eq ${text}`)}`
      expect([text, total.parse(await call('GET', path)).totalResults]).toEqual([text, 1])
    }
  })

  test('is one column, key and value in the file of a connector', async () => {
    const { call } = await newCaller()
    const connector = {
      key: 'sheet',
      name: 'Sheet',
      type: 'csv',
      dataset: 'auditable_entities',
      safety: { max_change_pct: 100 },
      mapping: [
        { target: 'external_id', source: 'id' },
        { target: 'name', source: `Name ${sent}` },
        { target: 'type', source: 'kind', transforms: [{ kind: 'map', values: { [sent]: 'process' } }] },
      ],
    }
    const { id } = identified.parse(await call('POST', '/api/v1/connectors', { body: connector }))
    await call('POST', '/api/v1/sync/entities', { body: [entity(sent, 'Pushed')] })
    const body = `id,Name ${asked},kind\n${asked},Brought ${asked},${asked}\n`
    const run = identified.parse(
      await call('POST', `/api/v1/connectors/${id}/runs`, { body, headers: { 'content-type': 'text/csv' } }),
    )
    await vi.waitFor(
      async () => {
        const read = await call('GET', `/api/v1/sync-runs/${run.id}`)
        expect(read).toMatchObject({ status: 'succeeded', finished_at: expect.any(String) })
      },
      { timeout: 60_000, interval: 200 },
    )
    expect(named.parse(await call('GET', '/api/v1/entities'))).toMatchObject([
      { name: `Brought ${nfc}`, external_id: nfc },
    ])
  })

  test('finds a key by its label', async () => {
    const tenant = await stack.createTenant()
    const token = await issuer.issue({ tenantId: tenant.id, roles: ['admin'], expiresInSeconds: 3600 })
    const headers = { authorization: `Bearer ${token}` }
    const body = { label: sent, expires_in: '30d', scopes: ['read:findings'] }
    const made = await send(gateway, '/api/v1/api-keys', { method: 'POST', headers, body })
    expect([made.status, made.json]).toMatchObject([201, { label: nfc }])
    const listed = await send(gateway, `/api/v1/api-keys?label=${query(asked)}`, { headers })
    expect(listed.json).toMatchObject([{ label: nfc }])
  })
})

test('length limits apply to the normalized text', async () => {
  const { call } = await newCaller()
  const body = { title: 'u\u0308'.repeat(255), condition: 'As seen.', severity: 'low' }
  expect(await call('POST', '/api/v1/findings', { body })).toMatchObject({ title: '\u00fc'.repeat(255) })
  // U+0958 has no composed form: NFC writes it with two characters.
  const tenant = await stack.createTenant()
  const { key } = await stack.createKey(tenant, { scopes: ['*'] })
  const longer = { ...body, title: '\u0958'.repeat(200) }
  const refused = await send(gateway, '/api/v1/findings', { key, method: 'POST', body: longer })
  expect([refused.status, refused.json]).toMatchObject([422, { errors: [{ pointer: '/title', code: 'too_big' }] }])
})

test('two names of one object that differ only in their form are rejected', async () => {
  const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['*'] })
  const finding = { title: 'A', condition: 'As seen.', severity: 'low' }
  const body = { ...finding, custom: { [nfc]: 1, [nfd]: 2 } }
  const refused = await send(gateway, '/api/v1/findings', { key, method: 'POST', body })
  expect([refused.status, refused.json]).toMatchObject([400, { errors: [{ code: 'duplicate_key' }] }])
  const kept = await send(gateway, '/api/v1/findings', {
    key,
    method: 'POST',
    body: { ...finding, custom: { [nfd]: 2 } },
  })
  expect([kept.status, kept.json]).toMatchObject([201, { custom: { [nfc]: 2 } }])
})

test('the bytes of evidence do not change', async () => {
  const { call } = await newCaller()
  const body = `${nfd},${nfc}\n`
  const file = await call('POST', '/api/v1/evidence?file_name=a.txt', {
    body,
    headers: { 'content-type': 'text/plain' },
  })
  expect(file).toMatchObject({ size_bytes: Buffer.byteLength(body) })
})
