import { itemSchemaOf, routeTable } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { parseCsv } from '../support/csv.ts'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'
import { pushUniverse } from '../support/push-universe.ts'
import { rowsOfWorkbook } from '../support/workbook.ts'

let issuer: RunningIssuer
let stack: TestStack
let gateway: string
let other: string
let world: ReturnType<typeof populate> | undefined
const populated = async () => await (world ??= populate())

beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({
    gateways: 2,
    env: {
      POSTERN_OIDC_ISSUER: issuer.url,
      POSTERN_OIDC_AUDIENCE: 'postern',
      // A port without a server.
      POSTERN_SMTP_URL: 'smtp://127.0.0.1:9',
      POSTERN_SMTP_FROM: 'postern@harbourline.example',
    },
  })
  gateway = stack.gateways[0] ?? ''
  other = stack.gateways[1] ?? ''
})

afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

/** Creates a connector with a missing row, and a run with changes and errors. */
async function connectorOf(key: string): Promise<{ connector: string; run: string }> {
  const body = { key: 'sheet', name: 'Sheet', type: 'csv', dataset: 'auditable_entities' }
  const made = await send(gateway, '/api/v1/connectors', { key, method: 'POST', body })
  const { id: connector } = z.object({ id: z.string() }).parse(made.json)
  const run = async (rows: readonly string[], status: string): Promise<string> => {
    const begun = await send(gateway, `/api/v1/connectors/${connector}/runs`, {
      key,
      method: 'POST',
      body: ['external_id,name,type', ...rows, ''].join('\n'),
      headers: { 'content-type': 'text/csv' },
    })
    const { id } = z.object({ id: z.string() }).parse(begun.json)
    await vi.waitFor(
      async () => {
        const { json } = await send(gateway, `/api/v1/sync-runs/${id}`, { key })
        expect(json).toMatchObject({ status, finished_at: expect.any(String) })
      },
      { timeout: 60_000, interval: 200 },
    )
    return id
  }
  // A source that loses a larger share of its rows needs approval.
  const rows = Array.from({ length: 40 }, (_none, at) => `E${at},Good,process`)
  await run(rows, 'succeeded')
  return { connector, run: await run(['E1,Better,process', ...rows.slice(2), 'E99,,process'], 'partial') }
}

/** Creates an endpoint with a failed delivery, and disables it so that neither changes. */
async function webhookOf(authorization: string): Promise<string> {
  const ask = async (method: 'GET' | 'POST' | 'PATCH', path: string, body?: object) =>
    await send(gateway, `/api/v1/webhooks${path}`, {
      method,
      headers: { authorization, 'if-match': '*' },
      ...(body === undefined ? {} : { body }),
    })
  const made = await ask('POST', '', {
    url: 'mailto:audit@harbourline.example',
    description: 'Mail',
    events: ['sync_run.needs_approval'],
  })
  const { id } = z.object({ id: z.string() }).parse(made.json)
  expect((await ask('POST', `/${id}/deliveries`)).status).toBe(200)
  await vi.waitFor(async () => expect((await ask('GET', `/${id}/deliveries`)).json).toMatchObject([{ attempts: 1 }]), {
    timeout: 60_000,
    interval: 200,
  })
  expect((await ask('PATCH', `/${id}`, { state: 'disabled' })).status).toBe(200)
  return id
}

const anything = z.array(z.unknown())
/** Removes `last_seen_at`, which changes with each request. */
const members = z.array(
  z
    .object({ last_seen_at: z.string() })
    .loose()
    .transform(({ last_seen_at: _at, ...rest }) => rest),
)

const finding = { title: 'Backups are not tested', condition: 'As seen.', severity: 'high' }

/** Creates a tenant with every kind of resource. Returns a reader of all, and the value of `:id` by the path before it. */
async function populate() {
  const tenant = await stack.createTenant()
  const authorization = `Bearer ${await issuer.issue({ tenantId: tenant.id, roles: ['admin'] })}`
  // The use of a key is recorded a little later, so other requests follow.
  await send(gateway, '/api/v1/members', { headers: { authorization } })
  const { key, id } = await stack.createKey(tenant, { scopes: ['*'] })
  await pushUniverse(gateway, key)
  const make = async (path: string, body: object): Promise<string> => {
    const made = await send(gateway, path, { key, method: 'POST', body })
    return z.object({ id: z.string() }).parse(made.json).id
  }
  const findingId = await make('/api/v1/findings', finding)
  const plan = { title: 'Test them', owner: { name: 'Bo' }, due_date: '2030-01-01' }
  const plans = await make(`/api/v1/findings/${findingId}/action-plans`, plan)
  const recommendations = await make(`/api/v1/findings/${findingId}/recommendations`, { text: 'Test them often.' })
  const headers = { 'content-type': 'text/csv' }
  const file = await send(gateway, '/api/v1/evidence?file_name=a.csv', { key, method: 'POST', body: 'a', headers })
  const { id: fileId } = z.object({ id: z.string() }).parse(file.json)
  const { connector, run } = await connectorOf(key)
  const nodes = await send(gateway, '/api/v1/hierarchies/legal/nodes', { key })
  const [node] = z.array(z.object({ id: z.string() })).parse(nodes.json)
  const subjects = {
    'api-keys': id,
    'sync-runs': run,
    connectors: connector,
    entities: 'ext:pay',
    findings: findingId,
    'evidence-files': fileId,
    'action-plans': plans,
    recommendations,
    'hierarchy-nodes': node?.id ?? '',
    'test-procedures': 'ext:rec',
    people: 'ext:ada',
    webhooks: await webhookOf(authorization),
  }
  // The last use of a key is reported at any time.
  const { id: idleKey } = await stack.createKey(tenant, { scopes: ['read:findings'] })
  return { key, authorization, subjects, steadySubjects: { ...subjects, 'api-keys': idleKey } }
}

const targetOf = (subjects: Readonly<Record<string, string>>, path: string): string =>
  path.replace(':id', subjects[path.split('/')[3] ?? ''] ?? '').replace(':key', 'legal')

const lists = routeTable.filter((route) => itemSchemaOf(route) !== undefined)

test('every list has the same rows as JSON, NDJSON, CSV and workbook, and a plan of action is OSCAL', async () => {
  const { key, authorization, subjects } = await populated()
  await vi.waitFor(
    async () => expect((await send(gateway, '/api/v1/members', { headers: { authorization } })).json).toHaveLength(1),
    { timeout: 120_000, interval: 500 },
  )
  const policy = { authorization, 'if-match': '*' }
  await send(gateway, '/api/v1/key-policy', { method: 'PATCH', headers: policy, body: { max_key_days: 800 } })
  for (const { path } of lists) {
    const extra = path.endsWith('/diff')
      ? '?from=0'
      : path === '/api/v1/changes'
        ? '?limit=1000'
        : path === '/api/v1/audit-events'
          ? `?until=${new Date().toISOString()}`
          : ''
    const target = `${targetOf(subjects, path)}${extra}`
    const get = async (accept: string) => await send(gateway, target, { headers: { accept, authorization } })
    // Differences between versions are not counted, and the answer says so.
    const isCounted = !path.endsWith('/diff') && path !== '/api/v1/changes'
    const countTarget = `${target}${target.includes('?') ? '&' : '?'}count=true`
    const counted = await send(gateway, countTarget, { headers: { accept: 'application/json', authorization } })
    const steady = path === '/api/v1/members' ? members : anything
    const page = steady.parse((await get('application/json')).json)
    const lines = (await get('application/x-ndjson')).text.split('\n').slice(0, -1)
    const table = await get('text/csv')
    expect(steady.parse(lines.map((line) => JSON.parse(line))), target).toEqual(page)
    expect([countTarget, counted.status, counted.headers['x-total-count']]).toEqual(
      isCounted ? [countTarget, 200, String(lines.length)] : [countTarget, 400, undefined],
    )
    expect(parseCsv(table.text), target).toHaveLength(page.length + 1)
    expect([target, page.length > 0]).toEqual([target, true])
    const joint = target.includes('?') ? '&' : '?'
    for (const [format, whole] of [
      ['ndjson', lines.length],
      ['csv', parseCsv(table.text).length],
    ] as const) {
      const named = await send(gateway, `${target}${joint}format=${format}`, { headers: { authorization } })
      const rows = format === 'csv' ? parseCsv(named.text).length : named.text.split('\n').length - 1
      expect([target, format, named.status, rows]).toEqual([target, format, 200, whole])
    }
    const rows = await rowsOfWorkbook(`${gateway}${target}${joint}format=xlsx`, authorization)
    expect([target, rows]).toEqual([target, parseCsv(table.text).length])
    const { json, headers } = await send(gateway, `${target}${joint}envelope=true`, { headers: { authorization } })
    expect(headers['content-type']).toMatch(/^application\/vnd\.postern\.page\+json/)
    const { items } = z.object({ items: steady, next: z.null(), total: z.null() }).parse(json)
    expect(items, target).toEqual(page)
    expect(await get('application/pdf')).toMatchObject({ status: 406, code: 'not_acceptable' })
  }
  expect(lists.length).toBeGreaterThan(14)
  const poam = await send(gateway, '/api/v1/exports/poam.json?status=draft', {
    key,
    headers: { accept: 'application/oscal+json' },
  })
  expect([poam.status, poam.headers['content-type']]).toEqual([200, 'application/oscal+json; charset=utf-8'])
  expect(poam.text).toContain(finding.title)
})

/** A change of each changeable resource. */
const changes: Readonly<Record<string, object>> = {
  'PATCH /api/v1/api-keys/:id': { label: 'Another' },
  'PATCH /api/v1/key-policy': { max_key_days: 700 },
  'PATCH /api/v1/findings/:id': { title: 'Another' },
  'PATCH /api/v1/action-plans/:id': { title: 'Another' },
  'PATCH /api/v1/recommendations/:id': { text: 'Another' },
  'PATCH /api/v1/connectors/:id': { name: 'Another' },
  'PATCH /api/v1/evidence-policy': { retention_years: 9 },
  'PATCH /api/v1/webhooks/:id': { description: 'Another' },
}

const ofApi = routeTable.filter(({ path, bodyMediaTypes = [] }) => {
  return path.startsWith('/api/v1/') && !bodyMediaTypes.includes('application/offset+octet-stream')
})
const readable = ofApi.filter(
  ({ method, path, answers }) => method === 'GET' && (304 in answers || path.endsWith('/:id')),
)
const changeable = ofApi.filter(({ method }) => method === 'PATCH')

test('every single resource has an entity tag, and returns 304 if the caller has it', async () => {
  const { authorization, steadySubjects } = await populated()
  for (const { path } of readable) {
    const target = targetOf(steadySubjects, path)
    const get = async (tag?: string) => {
      const condition = tag === undefined ? {} : { 'if-none-match': tag }
      return await send(gateway, target, { headers: { authorization, ...condition } })
    }
    const first = await get()
    const tag = String(first.headers['etag'])
    expect([target, first.status, /^(?:W\/)?"[^"]+"$/.test(tag)]).toEqual([target, 200, true])
    const again = await get(tag)
    expect([target, again.status, again.text, again.headers['etag']]).toEqual([target, 304, '', tag])
    expect((await get('"other"')).status, target).toBe(200)
  }
  expect(readable.length).toBeGreaterThan(13)
})

test('every resource changes only with the entity tag of its current version, and once if many send it at the same moment', async () => {
  const { authorization, steadySubjects } = await populated()
  expect(changeable.map(({ path }) => `PATCH ${path}`).toSorted()).toEqual(Object.keys(changes).toSorted())
  for (const { path } of changeable) {
    const target = targetOf(steadySubjects, path)
    const patch = async (condition: Record<string, string>, at = gateway) => {
      const headers = { authorization, ...condition }
      return await send(at, target, { method: 'PATCH', headers, body: changes[`PATCH ${path}`] })
    }
    const read = async () => await send(gateway, target, { headers: { authorization } })
    const before = await read()
    expect(await patch({}), target).toMatchObject({ status: 428, code: 'precondition_required' })
    expect(await patch({ 'if-match': '"other"' }), target).toMatchObject({ status: 412, code: 'precondition_failed' })
    expect((await read()).text, target).toBe(before.text)
    const condition = { 'if-match': String(before.headers['etag']) }
    const racing = await Promise.all(
      [gateway, other, gateway, other, gateway, other].map(async (at) => await patch(condition, at)),
    )
    const [changed, ...late] = racing.toSorted((one, two) => one.status - two.status)
    expect([target, changed?.status, changed?.text]).toEqual([target, 200, expect.stringMatching(/Another|700|9/)])
    expect([target, ...late.map(({ code }) => code)]).toEqual([target, ...late.map(() => 'precondition_failed')])
    expect((await patch({ 'if-match': String(before.headers['etag']) })).status, target).toBe(412)
  }
})

const objectSchema = z.record(z.string(), z.unknown())

test('every resource can be sent back by PATCH as it was read, and nothing changes', async () => {
  const { authorization, steadySubjects } = await populated()
  const get = async (target: string) => await send(gateway, target, { headers: { authorization } })
  const events = async () => [(await get('/api/v1/audit-events')).text, (await get('/api/v1/changes')).text]
  for (const path of Object.keys(changes).map((name) => name.slice('PATCH '.length))) {
    const target = targetOf(steadySubjects, path)
    const read = await get(target)
    const resource = objectSchema.parse(read.json)
    const headers = { authorization, 'if-match': String(read.headers['etag']) }
    const patch = async (body: object) => await send(gateway, target, { method: 'PATCH', headers, body })
    const refused = await patch({ ...resource, version: 4711 })
    expect([target, refused.status, refused.json]).toEqual([
      target,
      422,
      expect.objectContaining({ errors: [expect.objectContaining({ pointer: '/version', code: 'read_only' })] }),
    ])
    const outdated = await send(gateway, target, {
      method: 'PATCH',
      headers: { authorization, 'if-match': '"of-an-earlier-read"' },
      body: { ...resource, version: 4711 },
    })
    expect([target, outdated.status]).toEqual([target, 412])
    const before = await events()
    const same = await patch(resource)
    expect([target, same.status, same.text]).toEqual([target, 200, read.text])
    expect([target, same.headers['etag'], (await get(target)).text]).toEqual([target, read.headers['etag'], read.text])
    expect(await events()).toEqual(before)
    const late = await send(gateway, target, {
      method: 'PATCH',
      headers: { authorization, 'if-match': '"other"' },
      body: resource,
    })
    expect([target, late.status, late.code]).toEqual([target, 412, 'precondition_failed'])
  }
})

test('every resource can be changed by sending back all of it with one other member', async () => {
  const { authorization, steadySubjects } = await populated()
  for (const [name, change] of Object.entries(changes)) {
    const target = targetOf(steadySubjects, name.slice('PATCH '.length))
    const read = await send(gateway, target, { headers: { authorization } })
    const again = Object.entries(change).map(([member, value]) => [
      member,
      typeof value === 'number' ? value - 1 : 'Again',
    ])
    const body = { ...objectSchema.parse(read.json), ...Object.fromEntries(again) }
    const headers = { authorization, 'if-match': String(read.headers['etag']) }
    const changed = await send(gateway, target, { method: 'PATCH', headers, body })
    expect([target, changed.status, changed.text]).toEqual([
      target,
      200,
      expect.stringMatching(/Again|_(?:days|years)":(?:699|8)\b/),
    ])
  }
})

/** Where a copy of each resource is created, and what it cannot have in common with the first. */
const copies: Readonly<Record<string, readonly [of: string, other: object]>> = {
  '/api/v1/api-keys': ['/api/v1/api-keys/:id', { expires_in: 'custom' }],
  '/api/v1/findings': ['/api/v1/findings/:id', {}],
  '/api/v1/findings/:id/action-plans': ['/api/v1/action-plans/:id', {}],
  '/api/v1/findings/:id/recommendations': ['/api/v1/recommendations/:id', {}],
  '/api/v1/connectors': ['/api/v1/connectors/:id', { key: 'copy', secrets: {} }],
  '/api/v1/webhooks': ['/api/v1/webhooks/:id', {}],
}

test('every resource that was read can be created again from the members that its creation knows', async () => {
  const { authorization, steadySubjects } = await populated()
  const names = Object.keys(changes).map((change) => change.split('/').at(-2))
  const creations = routeTable.filter(
    ({ method, path, answers }) => method === 'POST' && 201 in answers && names.includes(path.split('/').at(-1)),
  )
  expect(creations.map(({ path }) => path).toSorted()).toEqual(Object.keys(copies).toSorted())
  for (const { path, body } of creations) {
    const [of = '', own = {}] = copies[path] ?? []
    const read = await send(gateway, targetOf(steadySubjects, of), { headers: { authorization } })
    const known = body instanceof z.ZodObject ? Object.keys(body.shape) : []
    const kept = Object.entries(objectSchema.parse(read.json)).filter(([name]) => known.includes(name))
    const sent = { ...Object.fromEntries(kept), ...own }
    const made = await send(gateway, targetOf(steadySubjects, path), {
      method: 'POST',
      headers: { authorization },
      body: sent,
    })
    expect([path, made.status, made.status === 201 ? '' : made.text]).toEqual([path, 201, ''])
  }
})
