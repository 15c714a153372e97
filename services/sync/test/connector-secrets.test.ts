import type { Connector } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import { type Principal, createTestCaller, randomRing } from '@postern/local-stack/testing'
import { expect, test } from 'vitest'
import { nowhere, path, secret, useConnectors } from './connector-support.ts'
import { type Answers, makeCertificate, startSourceServer } from './source-server.ts'
import { admin } from './support.ts'

const { world, caller, create, patch } = useConnectors()

test('secrets are in no response and in no table in clear text, and are erased when the connector is retired', async () => {
  const tenant = admin()
  const { connector } = await create(tenant, { secrets: { token: secret } })
  const answers = [
    await caller().call(tenant, 'GET', `${path}/${connector.id}`),
    await caller().call(tenant, 'GET', path),
    await caller().call(tenant, 'GET', path, { headers: { accept: 'text/csv' } }),
  ]
  expect(connector.secrets).toEqual({ token: { set: true, updated_at: expect.any(String) } })
  for (const { text } of answers) {
    expect(text).toContain('token')
    expect(text).not.toContain(secret)
  }
  const stored = async () =>
    JSON.stringify([
      await world().rows('select * from sync.connector_secret where connector_id = $1', [connector.id]),
      await world().rows('select * from sync.connector where id = $1', [connector.id]),
      await world().rows('select answer from sync.idempotency_record'),
    ])
  expect(await stored()).toContain('"sealed":"v1.')
  expect(await stored()).not.toContain(secret)
  await caller().call(tenant, 'DELETE', `${path}/${connector.id}`)
  expect(await stored()).not.toContain('"sealed"')
})

test('a secret is in no log line and no response, even if its source echoes it', async () => {
  const tenant = admin()
  const source = await startSourceServer({
    '/people': (request, response) => void response.writeHead(401).end(`no: ${request.headers.authorization}`),
  })
  const own = await world().startSync(nowhere, {
    POSTERN_SYNC_NETWORKS: '127.0.0.0/8',
    POSTERN_SYNC_WORKERS: '0',
    POSTERN_REQUEST_LOG: 'on',
  })
  try {
    const config = { url: `http://127.0.0.1:${source.port}/people`, auth: { kind: 'bearer' } }
    const { connector } = await create(tenant, { config, secrets: { token: secret } })
    const before = world().logged.length
    const tried = await world().syncCaller(own.url).call(tenant, 'POST', `${path}/${connector.id}/test`)
    expect([tried.status, tried.text]).toEqual([422, expect.stringContaining('credentials')])
    expect(world().logged.length).toBeGreaterThan(before)
    expect([tried.text, ...world().logged].filter((text) => text.includes(secret))).toEqual([])
  } finally {
    await own.close()
    await source.close()
  }
})

test('only the operator moves secrets to the current key, and they still work', async () => {
  const tenant = admin()
  const seen: (string | undefined)[] = []
  const source = await startSourceServer({
    '/people': (request, response) => {
      seen.push(request.headers.authorization)
      response.end('[]')
    },
  })
  const next = randomRing('next')
  const networks = { POSTERN_SYNC_NETWORKS: '127.0.0.0/8', POSTERN_SYNC_WORKERS: '0' }
  const both = await world().startSync(nowhere, {
    ...networks,
    POSTERN_SYNC_SECRETS: `${next},${world().rings.secrets}`,
  })
  const newest = await world().startSync(nowhere, { ...networks, POSTERN_SYNC_SECRETS: next })
  try {
    const config = { url: `http://127.0.0.1:${source.port}/people`, auth: { kind: 'bearer' } }
    const { connector } = await create(tenant, { config, secrets: { token: secret } })
    const rewrap = async (principal: Principal, keyName: 'operator' | 'sync') =>
      await createTestCaller({
        baseUrl: both.url,
        keyName,
        ring: world().rings[keyName],
        assertionKeys: world().database.assertionKeys,
      }).call(principal, 'POST', internalPaths.rewrapSecrets)
    expect((await rewrap({ ...tenant, kind: 'operator' }, 'sync')).status).toBe(401)
    const operator = { tenantId: tenant.tenantId, kind: 'operator', id: 'operator', scopes: [] } as const
    expect((await rewrap(operator, 'operator')).json).toEqual({ rewrapped: 1, unreadable: [] })
    expect((await rewrap(operator, 'operator')).json).toEqual({ rewrapped: 0, unreadable: [] })
    const [row] = await world().rows('select sealed from sync.connector_secret where connector_id = $1', [connector.id])
    expect(row?.['sealed']).toMatch(/^v1\.next\./)
    const tried = await world().syncCaller(newest.url).call(tenant, 'POST', `${path}/${connector.id}/test`)
    expect([tried.status, seen]).toEqual([200, [`Bearer ${secret}`]])
    // The old key is useless now.
    expect(await caller().call(tenant, 'POST', `${path}/${connector.id}/test`)).toMatchObject({
      status: 422,
      json: { errors: [{ code: 'secret_unreadable' }] },
    })
    // A damaged secret is reported, and the others are moved.
    const other = await create(tenant, { config, secrets: { token: secret, password: secret } })
    const damage = `update sync.connector_secret set sealed = 'v1.gone.AAAA.AAAA' where connector_id = $1 and name = 'password'`
    await world().rows(damage, [other.connector.id])
    const unreadable = [{ connector: other.connector.id, name: 'password' }]
    expect((await rewrap(operator, 'operator')).json).toEqual({ rewrapped: 1, unreadable })
  } finally {
    await both.close()
    await newest.close()
    await source.close()
  }
})

const configOf = (port: number, place: string) => ({
  url: `http://127.0.0.1:${port}/${place}`,
  auth: { kind: 'bearer' },
})

test('a connector that gets another source does not send it the secret of the previous one', async () => {
  const tenant = admin()
  const seen: (string | undefined)[] = []
  const take: Answers[string] = (request, response) => {
    seen.push(request.headers.authorization)
    response.end('[]')
  }
  const [first, second] = [
    await startSourceServer({ '/people': take, '/staff': take }),
    await startSourceServer({ '/people': take }),
  ]
  const inside = await world().startSync(nowhere, { POSTERN_SYNC_NETWORKS: '127.0.0.0/8', POSTERN_SYNC_WORKERS: '0' })
  const tryIt = async ({ id }: Connector) =>
    (await world().syncCaller(inside.url).call(tenant, 'POST', `${path}/${id}/test`)).status
  try {
    const { connector } = await create(tenant, { config: configOf(first.port, 'people'), secrets: { token: secret } })
    const other = configOf(second.port, 'people')
    const refused = { errors: [{ pointer: '/secrets/token', code: 'secret_needed' }] }
    expect(await patch(tenant, connector, { config: other })).toMatchObject({ status: 422, json: refused })
    expect([await tryIt(connector), first.asked, second.asked]).toEqual([200, ['/people'], []])
    // Another path of the same origin is the same source.
    expect(await patch(tenant, connector, { config: configOf(first.port, 'staff') })).toMatchObject({ status: 200 })
    expect([await tryIt(connector), seen]).toEqual([200, [`Bearer ${secret}`, `Bearer ${secret}`]])
    const renewed = { config: other, secrets: { token: 'for the second' } }
    expect(await patch(tenant, connector, renewed)).toMatchObject({ status: 200 })
    expect([await tryIt(connector), second.asked, seen.at(-1)]).toEqual([200, ['/people'], 'Bearer for the second'])
  } finally {
    await inside.close()
    await first.close()
    await second.close()
  }
})

const database = { engine: 'postgres', host: 'erp.example', database: 'erp', username: 'reader', view: 'people' }
const directory = { host: 'ldap.example', bind_dn: 'cn=reader', base_dn: 'dc=example' }
const oauth = { kind: 'oauth_client_credentials', token_url: 'https://login.example/token', client_id: 'postern' }
const web = { url: 'https://hr.example/people', auth: oauth }
const header = { kind: 'header', name: 'X-Api-Key' }
test.each([
  ['sql', 'password', database, { host: 'mine.example' }],
  ['sql', 'password', database, { port: 5433 }],
  ['sql', 'password', database, { engine: 'mariadb' }],
  ['sql', 'password', database, { encryption: 'none' }],
  ['sql', 'password', database, { username: 'other' }],
  ['sql', 'password', { ...database, port: 5433 }, { port: undefined }],
  ['ldap', 'password', directory, { host: 'mine.example' }],
  ['ldap', 'password', directory, { ca: 'other' }],
  ['ldap', 'password', directory, { encryption: 'starttls' }],
  ['ldap', 'password', directory, { bind_dn: 'cn=other' }],
  ['http_json', 'client_secret', web, { url: 'http://hr.example/people' }],
  ['http_json', 'client_secret', web, { auth: { ...oauth, token_url: 'https://mine.example/token' } }],
  ['http_json', 'client_secret', web, { auth: { ...oauth, client_id: 'other' } }],
  ['http_json', 'token', { ...web, auth: header }, { auth: { ...header, name: 'X-Other' } }],
  ['csv', 'token', {}, { url: 'https://mine.example/people', auth: { kind: 'bearer' } }],
])('another %s source needs its own %s: from %j to %j', async (type, name, config, change) => {
  const tenant = admin()
  const { connector } = await create(tenant, { type, config, secrets: { [name]: secret } })
  const { cert: ca } = await makeCertificate(['mine.example'])
  const next = { config: { ...config, ...change, ...('ca' in change ? { ca } : {}) } }
  expect(await patch(tenant, connector, next)).toMatchObject({
    status: 422,
    json: { errors: [{ pointer: `/secrets/${name}`, code: 'secret_needed' }] },
  })
  expect((await patch(tenant, connector, { ...next, secrets: { [name]: null } })).status).toBe(200)
})

test.each(['Accept', 'accept-encoding', 'Host', 'Content-Type', 'User-Agent'])(
  'a secret cannot be sent in the header %s, which other origins receive too',
  async (name) => {
    const tenant = admin()
    const { connector } = await create(tenant, {
      type: 'http_json',
      config: { ...web, auth: header },
      secrets: { token: secret },
    })
    const config = { ...web, auth: { ...header, name } }
    expect(await patch(tenant, connector, { config, secrets: { token: 'new' } })).toMatchObject({
      status: 422,
      json: { errors: [{ pointer: '/config/auth/name' }] },
    })
  },
)

test.each([
  ['sql', 'password', database, { view: 'staff', schema: 'hr', encryption: 'tls' }],
  ['ldap', 'password', directory, { base_dn: 'dc=other', encryption: 'ldaps' }],
  ['http_json', 'client_secret', web, { url: 'https://hr.example/staff?all=1', items: '/items' }],
  ['csv', 'token', { url: 'https://hr.example/people', auth: { kind: 'bearer' } }, { url: undefined }],
])('a change of the same %s source keeps its %s: from %j to %j', async (type, name, config, change) => {
  const tenant = admin()
  const { connector } = await create(tenant, { type, config, secrets: { [name]: secret } })
  expect((await patch(tenant, connector, { config: { ...config, ...change } })).status).toBe(200)
})
