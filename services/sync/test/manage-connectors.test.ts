import { connectorSchema } from '@postern/contracts'
import { expect, test } from 'vitest'
import { connectorBody, path, useConnectors } from './connector-support.ts'
import { makeCertificate } from './source-server.ts'
import { admin } from './support.ts'

const { world, caller, tryCreate, create } = useConnectors()

const mapping = (source: string) => [
  { target: 'external_id', source: 'entryuuid' },
  { target: 'name', source: '/CN/0' },
  { target: 'email', source },
]

test('connectors need the scope, and those of another tenant are not found', async () => {
  const { connector } = await create(admin())
  const reader = { ...admin(), scopes: ['read:universe'] }
  expect((await caller().call(reader, 'POST', path, { body: connectorBody() })).status).toBe(403)
  for (const [method, rest] of [
    ['GET', ''],
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', '/runs'],
    ['POST', '/test'],
  ] as const) {
    const change = method === 'PATCH' ? { body: { name: 'Mine now' }, headers: { 'if-match': '*' } } : {}
    const answer = await caller().call(admin(), method, `${path}/${connector.id}${rest}`, change)
    expect([method, rest, answer.status]).toEqual([method, rest, 404])
  }
})

test.each([
  [{ type: 'ldap', config: { nonsense: true } }, '/config/host'],
  [
    { type: 'csv', config: { delimeter: ';' } },
    '/config/delimeter","code":"unknown","detail":"is not a known member: use url, auth',
  ],
  [
    { config: { url: 'https://x.example', auth: { kind: 'bearer', token: 't' } } },
    '/config/auth/token","code":"unknown',
  ],
  [
    { config: { url: 'https://x.example', auth: { kind: 'token' } } },
    '/config/auth/kind","code":"invalid","detail":"must be one of none',
  ],
  [{ config: {} }, '/config/url'],
  [{ secrets: { passphrase: 'x' } }, '/secrets/passphrase'],
  [{ mapping: [{ target: 'salary', source: 'x' }] }, '/mapping/0/target'],
  [{ mapping: [{ target: 'name.foo', source: 'x' }] }, '/mapping/0/target","code":"unknown'],
  [{ dataset: 'auditable_entities', mapping: [{ target: 'owner.emial', source: 'x' }] }, '/mapping/0/target'],
  [
    {
      dataset: 'auditable_entities',
      mapping: [
        { target: 'owner.email', source: 'x' },
        { target: 'owner', source: 'y' },
      ],
    },
    '/mapping/1/target","code":"invalid',
  ],
  [{ mapping: [{ target: 'name', source: 'x' }] }, '/mapping'],
  [{ schedule: { cron: '* * * * *', time_zone: 'UTC' } }, '/schedule/cron'],
  [{ schedule: { cron: '0 2 * * *', time_zone: 'Nowhere/Land' } }, '/schedule/time_zone'],
  [{ type: 'csv', config: {}, schedule: { cron: '0 2 * * *', time_zone: 'UTC' } }, '/schedule'],
  [{ hierarchy: { key: 'legal', name: 'Legal', kind: 'legal_entity' } }, '/hierarchy'],
  [{ dataset: 'org_structure' }, '/hierarchy'],
  [{ key: 'retired-erp' }, '/key'],
])('a connector with %j is rejected, and the error names the member', async (fields, pointer) => {
  const { status, text } = await tryCreate(admin(), fields)
  expect([status, text]).toEqual([422, expect.stringContaining(`"pointer":"${pointer}`)])
})

test('a mapping of an attribute that is not read from the directory is rejected', async () => {
  const tenant = admin()
  const config = { host: 'ldap.example', bind_dn: 'cn=reader', base_dn: 'dc=example', attributes: ['cn', 'mail'] }
  const unread = expect.stringContaining('"pointer":"/mapping/2/source","code":"unknown","detail":"is not read: ')
  for (const source of ['employeeNumber', '/employeeNumber/0', '/']) {
    const { status, text } = await tryCreate(tenant, { type: 'ldap', config, mapping: mapping(source) })
    expect([source, status, text]).toEqual([source, 422, unread])
  }
  const { connector, etag } = await create(tenant, { type: 'ldap', config, mapping: mapping('MAIL;lang-de') })
  const patch = async (change: object) => {
    const headers = { 'if-match': etag }
    const answer = await caller().call(tenant, 'PATCH', `${path}/${connector.id}`, { body: change, headers })
    return [answer.status, answer.text]
  }
  expect(await patch({ mapping: mapping('title') })).toEqual([422, unread])
  expect(await patch({ config: { ...config, attributes: ['cn'] } })).toEqual([422, unread])
  // A mapping from before can still be paused.
  await world().rows(
    `update sync.connector set mapping = replace(mapping::text, 'MAIL;lang-de', 'title')::jsonb where tenant_id = $1`,
    [tenant.tenantId],
  )
  expect(await patch({ state: 'paused' })).toEqual([200, expect.stringContaining('"title"')])
})

test.each([
  ['csv', { columns: ['entryuuid', 'CN', 'mail'] }],
  ['sql', { engine: 'postgres', host: 'hr.example', database: 'hr', username: 'reader', view: 'people' }],
])('a mapping of a column that is not read from the table (%s) is rejected', async (type, given) => {
  const tenant = admin()
  const config = { ...given, columns: ['entryuuid', 'CN', 'mail'] }
  const unread = expect.stringContaining('"pointer":"/mapping/2/source","code":"unknown","detail":"is not read: ')
  for (const source of ['e-mail', 'MAIL', '/e-mail', '/']) {
    const { status, text } = await tryCreate(tenant, { type, config, mapping: mapping(source) })
    expect([source, status, text]).toEqual([source, 422, unread])
  }
  const { connector, etag } = await create(tenant, { type, config, mapping: mapping('/mail') })
  const patch = async (change: object) => {
    const headers = { 'if-match': etag }
    const answer = await caller().call(tenant, 'PATCH', `${path}/${connector.id}`, { body: change, headers })
    return [answer.status, answer.text]
  }
  expect(await patch({ mapping: mapping('phone') })).toEqual([422, unread])
  expect(await patch({ config: { ...config, columns: ['entryuuid', 'CN'] } })).toEqual([422, unread])
  // Without `columns`, only the source knows its columns.
  await create(tenant, { type, config: { ...config, columns: undefined }, mapping: mapping('phone') })
  const lacking = await tryCreate(tenant, { type, config: { ...config, columns: ['external_id', 'mail'] } })
  expect([lacking.status, lacking.text]).toEqual([422, expect.stringContaining('must name name: without a mapping')])
})

test('certificates that are invalid, truncated or accompanied by a key are rejected', async () => {
  const { cert, key } = await makeCertificate(['directory.example'])
  const directory = { host: 'directory.example', bind_dn: 'cn=reader', base_dn: 'dc=example' }
  const at = async (ca: string) =>
    await tryCreate(admin(), { type: 'ldap', config: { ...directory, ca }, secrets: { password: 'x' } })
  const begin = '-----BEGIN CERTIFICATE-----'
  const none = `${begin}\n${Buffer.from('none').toString('base64')}\n-----END CERTIFICATE-----`
  const cut = cert.slice(0, cert.length / 2)
  for (const ca of [begin, none, cut, `${cert}\n${cut}`, `${cert}\n${none}`, `${cert}\n${key}`, JSON.stringify(cert)]) {
    expect(await at(ca), ca).toMatchObject({ status: 422, json: { errors: [{ pointer: '/config/ca' }] } })
  }
  for (const ca of [cert, cert.replaceAll('\n', '\r\n'), `of ours:\n${cert}\n\n${cert}\n`]) {
    expect((await at(ca)).status, ca).toBe(201)
  }
})

test('a connector key is unique until its connector is retired', async () => {
  const tenant = admin()
  const { connector } = await create(tenant, { key: 'erp' })
  expect((await tryCreate(tenant, { key: 'erp' })).status).toBe(409)
  expect((await tryCreate(tenant, { key: 'inline' })).status).toBe(409)
  expect((await caller().call(tenant, 'DELETE', `${path}/key:erp`)).status).toBe(204)
  expect((await caller().call(tenant, 'GET', `${path}/${connector.id}`)).status).toBe(404)
  expect((await tryCreate(tenant, { key: 'erp' })).status).toBe(201)
})

test('a connector can be retired, whatever keys other connectors have', async () => {
  const tenant = admin()
  const { connector } = await create(tenant)
  const other = await create(tenant)
  // The previous release accepted this key.
  const rename = 'update sync.connector set key = $2 where id = $1'
  await world().rows(rename, [other.connector.id, `retired-${connector.id}`])
  expect((await caller().call(tenant, 'DELETE', `${path}/${connector.id}`)).status).toBe(204)
  expect((await caller().call(tenant, 'GET', `${path}/${connector.id}`)).status).toBe(404)
  expect((await caller().call(tenant, 'DELETE', `${path}/key:retired-${connector.id}`)).status).toBe(204)
})

test('a connector is changed only in the version that was read', async () => {
  const tenant = admin()
  const { connector, etag } = await create(tenant)
  const patch = async (headers: Record<string, string>) =>
    await caller().call(tenant, 'PATCH', `${path}/${connector.id}`, { body: { name: 'Renamed' }, headers })
  expect((await patch({})).status).toBe(428)
  expect((await patch({ 'if-match': `W/${etag}` })).status).toBe(412)
  const changed = await patch({ 'if-match': etag })
  expect([changed.status, connectorSchema.parse(changed.json).name]).toEqual([200, 'Renamed'])
  expect((await patch({ 'if-match': etag })).status).toBe(412)
})

test('a change keeps the limits that it does not name', async () => {
  const tenant = admin()
  const safety = { max_deactivate: 2, max_deactivate_pct: 1, min_rows: 1000, max_change_pct: 5 }
  const { connector, etag } = await create(tenant, { safety })
  const patch = async (change: object) =>
    await caller().call(tenant, 'PATCH', `${path}/${connector.id}`, {
      body: { safety: change },
      headers: { 'if-match': etag, 'content-type': 'application/merge-patch+json' },
    })
  expect((await patch({ min_rows: null })).status).toBe(422)
  const changed = await patch({ min_rows: 2000 })
  expect([changed.status, changed.json]).toMatchObject([200, { safety: { ...safety, min_rows: 2000 } }])
  expect(connectorSchema.parse(changed.json).safety).toEqual({ ...safety, min_rows: 2000 })
})
