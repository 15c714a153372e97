/** @promise Tenants: What happens in any service is in the audit feed of its tenant, once, and in no other. */

import { type AuditEvent, auditEventSchema } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'

let issuer: RunningIssuer
let stack: TestStack
let gateway: string

beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({
    env: {
      POSTERN_OIDC_ISSUER: issuer.url,
      POSTERN_OIDC_AUDIENCE: 'postern',
      POSTERN_SYNC_NETWORKS: '127.0.0.1/32',
      POSTERN_SMTP_URL: 'smtp://127.0.0.1:9',
      POSTERN_SMTP_FROM: 'postern@harbourline.example',
    },
  })
  gateway = stack.gateways[0] ?? ''
})
afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

const feed = '/api/v1/audit-events'
const identified = z.object({ id: z.string() })

async function openTenant() {
  const tenant = await stack.createTenant()
  const tokenOf = async (role: string) => `Bearer ${await issuer.issue({ tenantId: tenant.id, roles: [role] })}`
  const authorization = await tokenOf('admin')
  const { key } = await stack.createKey(tenant, { scopes: ['*'] })
  const act = async (
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: object | string,
    headers: Record<string, string> = { authorization },
  ) => {
    const answer = await send(gateway, path, {
      method,
      headers: { 'if-match': '*', ...headers },
      ...(body && { body }),
    })
    expect(answer.status, `${path} ${answer.text}`).toBeLessThan(300)
    return answer.json
  }
  const read = async (query: string): Promise<AuditEvent[]> => {
    const { status, json, text } = await send(gateway, `${feed}?order=oldest&${query}`, { headers: { authorization } })
    expect(status, text).toBe(200)
    return z.array(auditEventSchema).parse(json)
  }
  const actionsOf = async (query: string) => (await read(query)).map(({ action }) => action)
  return { authorization, tokenOf, key, act, read, actionsOf }
}

test('viewers and keys get 403, and auditors read the feed', async () => {
  const { tokenOf, key } = await openTenant()
  const viewer = await send(gateway, feed, { headers: { authorization: await tokenOf('viewer') } })
  expect(viewer).toMatchObject({ status: 403, code: 'role_required' })
  expect(await send(gateway, feed, { key })).toMatchObject({ status: 403, code: 'role_required' })
  expect((await send(gateway, feed, { headers: { authorization: await tokenOf('auditor') } })).status).toBe(200)
})

test('evidence: who stored and who downloaded a file', async () => {
  const { key, act, read, actionsOf } = await openTenant()
  const stored = await act('POST', '/api/v1/evidence?file_name=a.csv', 'a', {
    authorization: `ApiKey ${key}`,
    'content-type': 'text/csv',
  })
  const { id } = identified.parse(stored)
  await vi.waitFor(async () => await act('GET', `/api/v1/evidence-files/${id}/content`), { timeout: 60_000 })
  await act('POST', `/api/v1/evidence-files/${id}/review`, { verdict: 'rejected', reason: 'Another period' })
  expect(await actionsOf(`resource=${id}`)).toEqual(['evidence.uploaded', 'evidence.downloaded', 'evidence.rejected'])
  const [downloaded] = await read(`resource=${id}&action=evidence.downloaded`)
  expect(downloaded).toMatchObject({
    category: 'evidence',
    actor_type: 'person',
    resource_type: 'evidence_file',
    resource_name: expect.stringMatching(/^EV-/),
    request_id: expect.stringMatching(/./),
  })
})

test('connectors: created, changed, run and retired', async () => {
  const { authorization, act, actionsOf, read } = await openTenant()
  const body = { key: 'sheet', name: 'Sheet', type: 'csv', dataset: 'auditable_entities' }
  const { id } = identified.parse(await act('POST', '/api/v1/connectors', body))
  await act('PATCH', `/api/v1/connectors/${id}`, { name: 'Another' })
  const rows = ['external_id,name,type', 'E1,Payments,process', ''].join('\n')
  const csv = { authorization, 'content-type': 'text/csv' }
  const { id: run } = identified.parse(await act('POST', `/api/v1/connectors/${id}/runs`, rows, csv))
  await vi.waitFor(
    async () => expect(await actionsOf(`resource=${run}`)).toEqual(['connector.run_started', 'connector.run_finished']),
    { timeout: 60_000, interval: 200 },
  )
  const other = await openTenant()
  expect(await other.actionsOf(`resource=${id}`)).toEqual([])
  await act('DELETE', `/api/v1/connectors/${id}`)
  expect(await actionsOf(`resource=${id}`)).toEqual(['connector.created', 'connector.changed', 'connector.retired'])
  expect((await read(`resource=${id}`))[1]).toMatchObject({ actor_type: 'person', resource_name: 'Another' })
  const postern = { actor_type: 'system', actor_id: null, actor_name: 'Postern', resource_name: 'Another' }
  expect((await read(`resource=${run}`))[1]).toMatchObject(postern)
})

test('webhooks: each change of an endpoint, and no event for a delivery', async () => {
  const { act, read } = await openTenant()
  const endpoint = { url: 'mailto:audit@harbourline.example', description: 'Mail', events: ['audit.*'] }
  const { id } = identified.parse(await act('POST', '/api/v1/webhooks', endpoint))
  const deliveries = async () =>
    z
      .array(z.object({ type: z.string(), attempts: z.int() }))
      .parse(await act('GET', `/api/v1/webhooks/${id}/deliveries`))
  await act('PATCH', `/api/v1/webhooks/${id}`, { description: 'Letters' })
  await vi.waitFor(
    async () =>
      expect((await deliveries()).filter(({ attempts }) => attempts > 0).map(({ type }) => type)).toContain(
        'audit.webhook',
      ),
    { timeout: 60_000 },
  )
  const before = await deliveries()
  expect(before.every(({ type }) => type === 'audit.webhook')).toBe(true)
  await act('DELETE', `/api/v1/webhooks/${id}`)
  const nameless = { url: 'https://127.0.0.1:9/hooks/secret?token=secret', events: ['key.*'] }
  await act('POST', '/api/v1/webhooks', nameless)
  await act('POST', '/api/v1/webhooks', { url: 'mailto:audit@harbourline.example', events: ['key.*'] })
  const names = (await read('category=webhook')).map(({ action, resource_name: name }) => `${action} ${name}`)
  expect(names).toEqual([
    'webhook.created Mail',
    'webhook.changed Letters',
    'webhook.deleted Letters',
    'webhook.created 127.0.0.1:9',
    'webhook.created mailto:audit@harbourline.example',
  ])
})

test('webhooks: another endpoint that subscribes to it gets the deletion of an endpoint', async () => {
  const { act, read } = await openTenant()
  const open = async (events: string): Promise<string> => {
    const endpoint = { url: 'mailto:audit@harbourline.example', description: events, events: [events] }
    return identified.parse(await act('POST', '/api/v1/webhooks', endpoint)).id
  }
  const [all, watching] = [await open('*'), await open('audit.webhook')]
  const deleted = await open('key.*')
  await act('DELETE', `/api/v1/webhooks/${deleted}`)
  const eventsOf = async (id: string) =>
    z
      .array(z.object({ type: z.string(), resource_id: z.string() }))
      .parse(await act('GET', `/api/v1/webhooks/${id}/deliveries`))
      .map(({ type, resource_id: event }) => `${type} ${event}`)
  const events = await read(`resource=${deleted}`)
  expect(events.map(({ action }) => action)).toEqual(['webhook.created', 'webhook.deleted'])
  const expected = events.map(({ id }) => `audit.webhook ${id}`)
  await expect
    .poll(async () => await eventsOf(watching), { timeout: 60_000, interval: 200 })
    .toEqual(expect.arrayContaining(expected))
  expect((await eventsOf(all)).filter((each) => each.startsWith('audit.'))).toEqual([])
})

test('directory: a deactivated person, once', async () => {
  const { key, act, read } = await openTenant()
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/scim+json' }
  const user = { userName: 'ada.lund@harbourline.example', displayName: 'Ada Lund', active: true }
  const { id } = identified.parse(await act('POST', '/scim/v2/Users', JSON.stringify(user), headers))
  const off = JSON.stringify({
    schemas: ['urn:ietf:params:scim:api:messages:2.0:PatchOp'],
    Operations: [{ op: 'replace', value: { active: false } }],
  })
  const path = `/scim/v2/Users/${id}`
  for (const _ of [1, 2]) await act('PATCH', path, off, headers)
  expect(await read('category=directory')).toMatchObject([
    { action: 'directory.person_deactivated', actor_type: 'key', resource_name: user.displayName, resource_id: id },
  ])
})
