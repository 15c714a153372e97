import { randomUUID } from 'node:crypto'
import { type Connector, connectorSchema, runSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import { type Principal, type SignedCaller, createTestCaller, randomRing } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Answers, makeCertificate, startSourceServer } from './source-server.ts'
import { admin, makeWorld } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: SignedCaller

// A port without a server: tests of connectors need no universe.
const nowhere = 'http://127.0.0.1:9'

beforeAll(async () => {
  world = await makeWorld()
  sync = await world.startSync(nowhere)
  caller = world.syncCaller(sync.url)
})

afterAll(async () => {
  await sync.close()
  await world.close()
})

const secret = 'correct horse battery staple'
const path = '/api/v1/connectors'

function body(fields: Record<string, unknown> = {}) {
  return {
    key: `c-${randomUUID()}`,
    name: 'ERP',
    type: 'http_json',
    dataset: 'people',
    config: { url: 'https://erp.example/people' },
    ...fields,
  }
}

async function create(tenant: Principal, fields: Record<string, unknown> = {}) {
  const answer = await caller.call(tenant, 'POST', path, { body: body(fields) })
  return { status: answer.status, text: answer.text, etag: answer.headers['etag'] ?? '', json: answer.json }
}

async function made(tenant: Principal, fields: Record<string, unknown> = {}) {
  const { status, json, etag } = await create(tenant, fields)
  expect(status).toBe(201)
  return { connector: connectorSchema.parse(json), etag }
}

const mapping = (source: string) => [
  { target: 'external_id', source: 'entryuuid' },
  { target: 'name', source: '/CN/0' },
  { target: 'email', source },
]

describe('setting up a connector', () => {
  test('is rejected without the scope, and finds nothing of another tenant', async () => {
    const { connector } = await made(admin())
    const reader = { ...admin(), scopes: ['read:universe'] }
    expect((await caller.call(reader, 'POST', path, { body: body() })).status).toBe(403)
    for (const [method, rest] of [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['POST', '/runs'],
      ['POST', '/test'],
    ] as const) {
      const change = method === 'PATCH' ? { body: { name: 'Mine now' }, headers: { 'if-match': '*' } } : {}
      const answer = await caller.call(admin(), method, `${path}/${connector.id}${rest}`, change)
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
  ])('is refused with %j, and says where', async (fields, pointer) => {
    const { status, text } = await create(admin(), fields)
    expect([status, text]).toEqual([422, expect.stringContaining(`"pointer":"${pointer}`)])
  })

  test('is rejected if the mapping names an attribute of a directory that is not read', async () => {
    const tenant = admin()
    const config = { host: 'ldap.example', bind_dn: 'cn=reader', base_dn: 'dc=example', attributes: ['cn', 'mail'] }
    const unread = expect.stringContaining('"pointer":"/mapping/2/source","code":"unknown","detail":"is not read: ')
    for (const source of ['employeeNumber', '/employeeNumber/0', '/']) {
      const { status, text } = await create(tenant, { type: 'ldap', config, mapping: mapping(source) })
      expect([source, status, text]).toEqual([source, 422, unread])
    }
    const { connector, etag } = await made(tenant, { type: 'ldap', config, mapping: mapping('MAIL;lang-de') })
    const patch = async (change: object) => {
      const headers = { 'if-match': etag }
      const answer = await caller.call(tenant, 'PATCH', `${path}/${connector.id}`, { body: change, headers })
      return [answer.status, answer.text]
    }
    expect(await patch({ mapping: mapping('title') })).toEqual([422, unread])
    expect(await patch({ config: { ...config, attributes: ['cn'] } })).toEqual([422, unread])
    // One that was saved before can be paused all the same.
    await world.rows(
      `update sync.connector set mapping = replace(mapping::text, 'MAIL;lang-de', 'title')::jsonb where tenant_id = $1`,
      [tenant.tenantId],
    )
    expect(await patch({ state: 'paused' })).toEqual([200, expect.stringContaining('"title"')])
  })

  test.each([
    ['csv', { columns: ['entryuuid', 'CN', 'mail'] }],
    ['sql', { engine: 'postgres', host: 'hr.example', database: 'hr', username: 'reader', view: 'people' }],
  ])('is rejected if the mapping names a column of a table (%s) that is not read', async (type, given) => {
    const tenant = admin()
    const config = { ...given, columns: ['entryuuid', 'CN', 'mail'] }
    const unread = expect.stringContaining('"pointer":"/mapping/2/source","code":"unknown","detail":"is not read: ')
    for (const source of ['e-mail', 'MAIL', '/e-mail', '/']) {
      const { status, text } = await create(tenant, { type, config, mapping: mapping(source) })
      expect([source, status, text]).toEqual([source, 422, unread])
    }
    const { connector, etag } = await made(tenant, { type, config, mapping: mapping('/mail') })
    const patch = async (change: object) => {
      const headers = { 'if-match': etag }
      const answer = await caller.call(tenant, 'PATCH', `${path}/${connector.id}`, { body: change, headers })
      return [answer.status, answer.text]
    }
    expect(await patch({ mapping: mapping('phone') })).toEqual([422, unread])
    expect(await patch({ config: { ...config, columns: ['entryuuid', 'CN'] } })).toEqual([422, unread])
    // Without `columns`, only the source knows its columns.
    await made(tenant, { type, config: { ...config, columns: undefined }, mapping: mapping('phone') })
    const lacking = await create(tenant, { type, config: { ...config, columns: ['external_id', 'mail'] } })
    expect([lacking.status, lacking.text]).toEqual([422, expect.stringContaining('must name name: without a mapping')])
  })

  test('is rejected with certificates that are invalid, truncated, or accompanied by a key', async () => {
    const { cert, key } = await makeCertificate(['directory.example'])
    const directory = { host: 'directory.example', bind_dn: 'cn=reader', base_dn: 'dc=example' }
    const at = async (ca: string) =>
      await create(admin(), { type: 'ldap', config: { ...directory, ca }, secrets: { password: 'x' } })
    const begin = '-----BEGIN CERTIFICATE-----'
    const none = `${begin}\n${Buffer.from('none').toString('base64')}\n-----END CERTIFICATE-----`
    const cut = cert.slice(0, cert.length / 2)
    for (const ca of [
      begin,
      none,
      cut,
      `${cert}\n${cut}`,
      `${cert}\n${none}`,
      `${cert}\n${key}`,
      JSON.stringify(cert),
    ]) {
      expect(await at(ca), ca).toMatchObject({ status: 422, json: { errors: [{ pointer: '/config/ca' }] } })
    }
    for (const ca of [cert, cert.replaceAll('\n', '\r\n'), `of ours:\n${cert}\n\n${cert}\n`]) {
      expect((await at(ca)).status, ca).toBe(201)
    }
  })

  test('accepts a key once, and again after its connector is retired', async () => {
    const tenant = admin()
    const { connector } = await made(tenant, { key: 'erp' })
    expect((await create(tenant, { key: 'erp' })).status).toBe(409)
    expect((await create(tenant, { key: 'inline' })).status).toBe(409)
    expect((await caller.call(tenant, 'DELETE', `${path}/key:erp`)).status).toBe(204)
    expect((await caller.call(tenant, 'GET', `${path}/${connector.id}`)).status).toBe(404)
    expect((await create(tenant, { key: 'erp' })).status).toBe(201)
  })

  test('can be undone whatever keys others have', async () => {
    const tenant = admin()
    const { connector } = await made(tenant)
    const other = await made(tenant)
    // As the release before lets it be made.
    const rename = 'update sync.connector set key = $2 where id = $1'
    await world.rows(rename, [other.connector.id, `retired-${connector.id}`])
    expect((await caller.call(tenant, 'DELETE', `${path}/${connector.id}`)).status).toBe(204)
    expect((await caller.call(tenant, 'GET', `${path}/${connector.id}`)).status).toBe(404)
    expect((await caller.call(tenant, 'DELETE', `${path}/key:retired-${connector.id}`)).status).toBe(204)
  })

  test('is changed only in the version that was read', async () => {
    const tenant = admin()
    const { connector, etag } = await made(tenant)
    const patch = async (headers: Record<string, string>) =>
      await caller.call(tenant, 'PATCH', `${path}/${connector.id}`, { body: { name: 'Renamed' }, headers })
    expect((await patch({})).status).toBe(428)
    expect((await patch({ 'if-match': `W/${etag}` })).status).toBe(412)
    const changed = await patch({ 'if-match': etag })
    expect([changed.status, connectorSchema.parse(changed.json).name]).toEqual([200, 'Renamed'])
    expect((await patch({ 'if-match': etag })).status).toBe(412)
  })

  test('keeps the limits that a change does not name', async () => {
    const tenant = admin()
    const safety = { max_deactivate: 2, max_deactivate_pct: 1, min_rows: 1000, max_change_pct: 5 }
    const { connector, etag } = await made(tenant, { safety })
    const patch = async (change: object) =>
      await caller.call(tenant, 'PATCH', `${path}/${connector.id}`, {
        body: { safety: change },
        headers: { 'if-match': etag, 'content-type': 'application/merge-patch+json' },
      })
    expect((await patch({ min_rows: null })).status).toBe(422)
    const changed = await patch({ min_rows: 2000 })
    expect([changed.status, changed.json]).toMatchObject([200, { safety: { ...safety, min_rows: 2000 } }])
    expect(connectorSchema.parse(changed.json).safety).toEqual({ ...safety, min_rows: 2000 })
  })
})

describe('the secrets of a connector', () => {
  test('are in no response and in no table in clear text, and are erased when it is retired', async () => {
    const tenant = admin()
    const { connector } = await made(tenant, { secrets: { token: secret } })
    const answers = [
      await caller.call(tenant, 'GET', `${path}/${connector.id}`),
      await caller.call(tenant, 'GET', path),
      await caller.call(tenant, 'GET', path, { headers: { accept: 'text/csv' } }),
    ]
    expect(connector.secrets).toEqual({ token: { set: true, updated_at: expect.any(String) } })
    for (const { text } of answers) {
      expect(text).toContain('token')
      expect(text).not.toContain(secret)
    }
    const stored = async () =>
      JSON.stringify([
        await world.rows('select * from sync.connector_secret where connector_id = $1', [connector.id]),
        await world.rows('select * from sync.connector where id = $1', [connector.id]),
        await world.rows('select answer from sync.idempotency_record'),
      ])
    expect(await stored()).toContain('"sealed":"v1.')
    expect(await stored()).not.toContain(secret)
    await caller.call(tenant, 'DELETE', `${path}/${connector.id}`)
    expect(await stored()).not.toContain('"sealed"')
  })

  test('are in no log line and no response, even if their source echoes them', async () => {
    const tenant = admin()
    const source = await startSourceServer({
      '/people': (request, response) => void response.writeHead(401).end(`no: ${request.headers.authorization}`),
    })
    const own = await world.startSync(nowhere, {
      POSTERN_SYNC_NETWORKS: '127.0.0.0/8',
      POSTERN_SYNC_WORKERS: '0',
      POSTERN_REQUEST_LOG: 'on',
    })
    try {
      const config = { url: `http://127.0.0.1:${source.port}/people`, auth: { kind: 'bearer' } }
      const { connector } = await made(tenant, { config, secrets: { token: secret } })
      const before = world.logged.length
      const tried = await world.syncCaller(own.url).call(tenant, 'POST', `${path}/${connector.id}/test`)
      expect([tried.status, tried.text]).toEqual([422, expect.stringContaining('credentials')])
      expect(world.logged.length).toBeGreaterThan(before)
      expect([tried.text, ...world.logged].filter((text) => text.includes(secret))).toEqual([])
    } finally {
      await own.close()
      await source.close()
    }
  })

  test('are moved to the current key for the operator only, and still work', async () => {
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
    const both = await world.startSync(nowhere, { ...networks, POSTERN_SYNC_SECRETS: `${next},${world.rings.secrets}` })
    const newest = await world.startSync(nowhere, { ...networks, POSTERN_SYNC_SECRETS: next })
    try {
      const config = { url: `http://127.0.0.1:${source.port}/people`, auth: { kind: 'bearer' } }
      const { connector } = await made(tenant, { config, secrets: { token: secret } })
      const rewrap = async (principal: Principal, keyName: 'operator' | 'sync') =>
        await createTestCaller({
          baseUrl: both.url,
          keyName,
          ring: world.rings[keyName],
          assertionKeys: world.database.assertionKeys,
        }).call(principal, 'POST', internalPaths.rewrapSecrets)
      expect((await rewrap({ ...tenant, kind: 'operator' }, 'sync')).status).toBe(401)
      const operator = { tenantId: tenant.tenantId, kind: 'operator', id: 'operator', scopes: [] } as const
      expect((await rewrap(operator, 'operator')).json).toEqual({ rewrapped: 1, unreadable: [] })
      expect((await rewrap(operator, 'operator')).json).toEqual({ rewrapped: 0, unreadable: [] })
      const [row] = await world.rows('select sealed from sync.connector_secret where connector_id = $1', [connector.id])
      expect(row?.['sealed']).toMatch(/^v1\.next\./)
      const tried = await world.syncCaller(newest.url).call(tenant, 'POST', `${path}/${connector.id}/test`)
      expect([tried.status, seen]).toEqual([200, [`Bearer ${secret}`]])
      // The old key is useless now.
      expect(await caller.call(tenant, 'POST', `${path}/${connector.id}/test`)).toMatchObject({
        status: 422,
        json: { errors: [{ code: 'secret_unreadable' }] },
      })
      // Nor does the ring open one that was damaged, and puts the others under the key all the same.
      const other = await made(tenant, { config, secrets: { token: secret, password: secret } })
      const damage = `update sync.connector_secret set sealed = 'v1.gone.AAAA.AAAA' where connector_id = $1 and name = 'password'`
      await world.rows(damage, [other.connector.id])
      const unreadable = [{ connector: other.connector.id, name: 'password' }]
      expect((await rewrap(operator, 'operator')).json).toEqual({ rewrapped: 1, unreadable })
    } finally {
      await both.close()
      await newest.close()
      await source.close()
    }
  })
})

const ask = async (principal: Principal, { id }: Connector, change: object) => {
  const headers = { 'if-match': '*' }
  const { status, json } = await caller.call(principal, 'PATCH', `${path}/${id}`, { body: change, headers })
  return { status, json }
}

const configOf = (port: number, place: string) => ({
  url: `http://127.0.0.1:${port}/${place}`,
  auth: { kind: 'bearer' },
})

describe('a change that names another source', () => {
  test('sends it no secret of the previous source', async () => {
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
    const inside = await world.startSync(nowhere, { POSTERN_SYNC_NETWORKS: '127.0.0.0/8', POSTERN_SYNC_WORKERS: '0' })
    const tryIt = async ({ id }: Connector) =>
      (await world.syncCaller(inside.url).call(tenant, 'POST', `${path}/${id}/test`)).status
    try {
      const { connector } = await made(tenant, { config: configOf(first.port, 'people'), secrets: { token: secret } })
      const other = configOf(second.port, 'people')
      const refused = { errors: [{ pointer: '/secrets/token', code: 'secret_needed' }] }
      expect(await ask(tenant, connector, { config: other })).toMatchObject({ status: 422, json: refused })
      expect([await tryIt(connector), first.asked, second.asked]).toEqual([200, ['/people'], []])
      // Another path of the same origin is the same source.
      expect(await ask(tenant, connector, { config: configOf(first.port, 'staff') })).toMatchObject({ status: 200 })
      expect([await tryIt(connector), seen]).toEqual([200, [`Bearer ${secret}`, `Bearer ${secret}`]])
      const anew = { config: other, secrets: { token: 'for the second' } }
      expect(await ask(tenant, connector, anew)).toMatchObject({ status: 200 })
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
  ])('of %s is rejected without its %s: from %j to %j', async (type, name, config, change) => {
    const tenant = admin()
    const { connector } = await made(tenant, { type, config, secrets: { [name]: secret } })
    const { cert: ca } = await makeCertificate(['mine.example'])
    const next = { config: { ...config, ...change, ...('ca' in change ? { ca } : {}) } }
    expect(await ask(tenant, connector, next)).toMatchObject({
      status: 422,
      json: { errors: [{ pointer: `/secrets/${name}`, code: 'secret_needed' }] },
    })
    expect((await ask(tenant, connector, { ...next, secrets: { [name]: null } })).status).toBe(200)
  })

  test.each(['Accept', 'accept-encoding', 'Host', 'Content-Type', 'User-Agent'])(
    'cannot be the header %s, which other origins receive too',
    async (name) => {
      const tenant = admin()
      const { connector } = await made(tenant, {
        type: 'http_json',
        config: { ...web, auth: header },
        secrets: { token: secret },
      })
      const config = { ...web, auth: { ...header, name } }
      expect(await ask(tenant, connector, { config, secrets: { token: 'new' } })).toMatchObject({
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
  ])('of %s that stays the same keeps its %s: from %j to %j', async (type, name, config, change) => {
    const tenant = admin()
    const { connector } = await made(tenant, { type, config, secrets: { [name]: secret } })
    expect((await ask(tenant, connector, { config: { ...config, ...change } })).status).toBe(200)
  })
})

describe('a schedule', () => {
  test('that is due creates one run and the next time, except for a paused connector', async () => {
    const tenant = admin()
    const schedule = { cron: '30 2 * * *', time_zone: 'Europe/Berlin' }
    const { connector } = await made(tenant, { schedule })
    expect(Date.parse(connector.next_run_at ?? '')).toBeGreaterThan(Date.now())
    const due = '2026-01-01T01:30:00.000Z'
    await world.rows('update sync.connector set next_run_at = $2 where id = $1', [connector.id, due])
    await world.rows(
      `update queue.job set start_after = now(), data = jsonb_set(data, '{due}', to_jsonb($2::text))
       where data ->> 'id' = $1 and name = 'sync-schedule'`,
      [connector.id, due],
    )
    const runsOf = async () => {
      const { json } = await caller.call(tenant, 'GET', `/api/v1/sync-runs?connector=${connector.key}`)
      return runSchema.array().parse(json)
    }
    const [run] = await vi.waitFor(
      async () => {
        const runs = await runsOf()
        expect(runs).toHaveLength(1)
        return runs
      },
      { timeout: 60_000, interval: 200 },
    )
    expect(run).toMatchObject({ trigger: 'schedule', mode: 'apply', created_by: { type: 'connector' } })
    const now = await caller.call(tenant, 'GET', `${path}/${connector.id}`)
    const after: Connector = connectorSchema.parse(now.json)
    expect(Date.parse(after.next_run_at ?? '')).toBeGreaterThan(Date.now())
    const paused = await caller.call(tenant, 'PATCH', `${path}/${connector.id}`, {
      body: { state: 'paused' },
      headers: { 'if-match': now.headers['etag'] ?? '' },
    })
    expect([paused.status, connectorSchema.parse(paused.json).next_run_at]).toEqual([200, null])
    expect((await caller.call(tenant, 'POST', `${path}/${connector.id}/runs`)).status).toBe(409)
  })

  test('continues however often a job of it has failed', async () => {
    const tenant = admin()
    const { connector } = await made(tenant, { schedule: { cron: '30 2 * * *', time_zone: 'Europe/Berlin' } })
    const setJob = async (due: string, attempts: number) =>
      await world.rows(
        `update queue.job set start_after = now(), retry_count = $3, data = jsonb_set(data, '{due}', to_jsonb($2::text))
         where data ->> 'id' = $1 and name = 'sync-schedule'`,
        [connector.id, due, attempts],
      )
    await setJob('no time', 500)
    await vi.waitFor(
      async () => {
        const text = `select state::text, keep_until > now() + interval '300 days' as "isExact" from queue.job
          where data ->> 'id' = $1 and name = 'sync-schedule'`
        expect(await world.rows(text, [connector.id])).toEqual([{ state: 'retry', isExact: true }])
      },
      { timeout: 60_000, interval: 200 },
    )
    const due = '2026-01-01T01:30:00.000Z'
    await world.rows('update sync.connector set next_run_at = $2 where id = $1', [connector.id, due])
    await setJob(due, 501)
    await vi.waitFor(
      async () => {
        const { json } = await caller.call(tenant, 'GET', `/api/v1/sync-runs?connector=${connector.key}`)
        expect(json).toHaveLength(1)
      },
      { timeout: 60_000, interval: 200 },
    )
  })
})
