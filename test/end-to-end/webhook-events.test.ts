/**
 * @promise Operation: Every type of event of the catalogue reaches an endpoint, once, with a signature that verifies.
 */

import {
  type WebhookEventType,
  auditEventSchema,
  createdWebhookSchema,
  webhookEventTypes,
  webhookPayloadSchema,
} from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import {
  type TestStack,
  type TestVirusScanner,
  createTestCaller,
  findVirusScanner,
  operator,
  startTestStack,
  startTestVirusScanner,
} from '@postern/local-stack/testing'
import { nilTenantId } from '@postern/signed-context'
import { connect } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { startReceiver, verify } from '../../services/sync/test/webhook-support.ts'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'

const program = await findVirusScanner()
if (typeof program === 'string') process.stdout.write(`evidence.quarantined is not tested: ${program}\n`)

const malware = 'postern-test-malware-4b1d'
const csv = 'text/csv'
const identified = z.object({ id: z.string() })

let issuer: RunningIssuer
let receiver: Awaited<ReturnType<typeof startReceiver>>
let scanner: TestVirusScanner | undefined
let stack: TestStack
let tenant: { readonly id: string }
let key: string
let authorization: string
let endpoint: z.infer<typeof createdWebhookSchema>

beforeAll(async () => {
  issuer = await startIssuer()
  receiver = await startReceiver({ '/gone': (_received, response) => response.writeHead(410).end() })
  if (typeof program !== 'string') scanner = await startTestVirusScanner(program, { 'Postern.Test': malware })
  stack = await startTestStack({
    env: {
      POSTERN_OIDC_ISSUER: issuer.url,
      POSTERN_OIDC_AUDIENCE: 'postern',
      POSTERN_SYNC_NETWORKS: '127.0.0.1/32',
      ...(scanner && { POSTERN_CLAMAV_URL: `tcp://127.0.0.1:${scanner.port}` }),
    },
  })
  tenant = await stack.createTenant()
  key = (await stack.createKey(tenant, { scopes: ['*'] })).key
  authorization = `Bearer ${await issuer.issue({ tenantId: tenant.id, roles: ['admin'] })}`
  endpoint = await openEndpoint('/hook', ['*', 'audit.*'])
  // What was due yesterday is an event only for tenants that had an endpoint.
  await execute(`update tenancy.event_reader set since = now() - interval '1 year' where tenant_id = '${tenant.id}'`)
}, 180_000)
afterAll(async () => {
  await stack.stop()
  await scanner?.stop()
  await receiver.close()
  await issuer.stop()
})

async function call(
  method: 'GET' | 'POST' | 'PATCH',
  path: string,
  { body, headers = { authorization } }: { readonly body?: unknown; readonly headers?: Record<string, string> } = {},
): Promise<unknown> {
  const options = { method, headers: { 'if-match': '*', ...headers }, ...(body !== undefined && { body }) }
  const { status, json, text } = await send(stack.gateways[0] ?? '', path, options)
  expect(status, `${method} ${path} ${text}`).toBeLessThan(300)
  return json
}

const asKey = (contentType = 'application/json') => ({
  authorization: `ApiKey ${key}`,
  'content-type': contentType,
})

async function create(path: string, body: unknown, headers: Record<string, string> = { authorization }) {
  return identified.parse(await call('POST', path, { body, headers })).id
}

async function openEndpoint(path: string, events: readonly string[]) {
  const body = { url: `${receiver.url}${path}`, events, ca: receiver.ca }
  return createdWebhookSchema.parse(await call('POST', '/api/v1/webhooks', { body }))
}

/** As the superuser, in one transaction. */
async function execute(...statements: readonly string[]): Promise<void> {
  await using connection = await connect(stack.database.url('superuser'))
  await connection.client.query(['begin', ...statements, 'commit'].join(';\n'))
}

const newKey = async () => await stack.createKey(tenant, { scopes: ['read:findings'] })
const revoke = async (id: string) => await call('POST', `/api/v1/api-keys/${id}/revoke`)

/** Moves the expiry of a new key, as time does, and the search for such keys an hour back. */
async function newKeyThatExpiresIn(interval: string): Promise<string> {
  const { id } = await newKey()
  await execute(
    'set local session_replication_role = replica',
    `update keys.api_key set expires_at = now() + interval '${interval}', created_at = now() - interval '100 days'
     where id = '${id}'`,
    `insert into keys.expiry_scan (tenant_id, scanned_until) values ('${tenant.id}', now() - interval '1 hour')
     on conflict (tenant_id) do update set scanned_until = excluded.scanned_until`,
  )
  return id
}

const newFinding = async () =>
  await create('/api/v1/findings', { title: 'No review', severity: 'high', condition: 'Nobody reviews.' }, asKey())

async function newPlan(): Promise<string> {
  const body = { title: 'Recertify', owner: { email: 'ada@bank.example' }, due_date: '2099-12-31' }
  return await create(`/api/v1/findings/${await newFinding()}/action-plans`, body, asKey())
}

async function retitle(path: string): Promise<void> {
  await call('PATCH', path, { body: { title: 'Another title' }, headers: asKey('application/merge-patch+json') })
}

async function passDate(table: string, column: string, id: string): Promise<void> {
  await execute(
    'set local session_replication_role = replica',
    `update ${table} set ${column} = current_date - 2 where id = '${id}'`,
  )
}

const upload = async (content: string) => await create('/api/v1/evidence?file_name=a.csv', content, asKey(csv))

async function newConnector(): Promise<string> {
  const name = `c-${crypto.randomUUID()}`
  const body = { key: name, name, type: 'csv', dataset: 'auditable_entities', safety: { min_rows: 2 } }
  return await create('/api/v1/connectors', body)
}

async function deactivatePerson(): Promise<string> {
  const headers = asKey('application/scim+json')
  const user = { userName: 'ada.lund@bank.example', active: true }
  const id = await create('/scim/v2/Users', JSON.stringify(user), headers)
  const body = JSON.stringify({
    schemas: ['urn:ietf:params:scim:api:messages:2.0:PatchOp'],
    Operations: [{ op: 'replace', value: { active: false } }],
  })
  await call('PATCH', `/scim/v2/Users/${id}`, { body, headers })
  return id
}

/** As a gateway reports a sign-in to the console. */
async function reportSignIn(): Promise<void> {
  const gateway = createTestCaller({
    baseUrl: stack.serviceUrl('keys'),
    keyName: 'internal',
    ring: stack.ring('POSTERN_INTERNAL_SIGNING_KEYS'),
    assertionKeys: stack.ring('POSTERN_ASSERTION_KEYS'),
  })
  const signIn = { tenantId: tenant.id, id: 'bo', name: 'Bo', reason: null, address: '192.0.2.1', at: Date.now() }
  const body = { uses: [], denials: [], signIns: [signIn] }
  const principal = { tenantId: nilTenantId, kind: 'service', id: 'gateway', label: '' } as const
  expect((await gateway.call(principal, 'POST', internalPaths.usage, { body })).status).toBe(204)
}

/** The event of the audit feed, which the delivery names. */
async function auditEvent(query: string): Promise<string> {
  const path = `/api/v1/audit-events?order=oldest&${query}`
  return await vi.waitFor(
    async () => {
      const [event] = z
        .array(auditEventSchema)
        .min(1)
        .parse(await call('GET', path))
      return event?.id ?? ''
    },
    { timeout: 180_000, interval: 250 },
  )
}

/** Makes each type of event happen. Returns the id of the resource that the event must name. */
const cases: Readonly<Record<WebhookEventType, () => Promise<string>>> = {
  'key.created': async () => (await newKey()).id,
  'key.rotated': async () => {
    const { id } = await newKey()
    await call('POST', `/api/v1/api-keys/${id}/rotate`, { body: {} })
    return id
  },
  'key.changed': async () => {
    const { id } = await newKey()
    await call('PATCH', `/api/v1/api-keys/${id}`, { body: { label: 'Another label' } })
    return id
  },
  'key.expiring': async () => await newKeyThatExpiresIn('7 days -5 minutes'),
  'key.expired': async () => await newKeyThatExpiresIn('-5 minutes'),
  'key.revoked': async () => {
    const { id } = await newKey()
    await revoke(id)
    return id
  },
  'key.leaked': async () => {
    const { id, key: leaked } = await newKey()
    await call('POST', '/api/v1/leaked-keys', { body: { keys: [leaked] }, headers: {} })
    return id
  },
  'key.used_from_new_address': async () => {
    const { id, key: used } = await newKey()
    await call('GET', '/api/v1/findings', { headers: { authorization: `ApiKey ${used}` } })
    return id
  },
  'key.used_after_revocation': async () => {
    const { id, key: used } = await newKey()
    await revoke(id)
    expect((await send(stack.gateways[0] ?? '', '/api/v1/findings', { key: used })).status).toBe(401)
    return id
  },
  'finding.created': newFinding,
  'finding.updated': async () => {
    const id = await newFinding()
    await retitle(`/api/v1/findings/${id}`)
    return id
  },
  'finding.became_overdue': async () => {
    const id = await newFinding()
    await passDate('findings.finding', 'target_on', id)
    return id
  },
  'action_plan.created': newPlan,
  'action_plan.updated': async () => {
    const id = await newPlan()
    await retitle(`/api/v1/action-plans/${id}`)
    return id
  },
  'action_plan.became_overdue': async () => {
    const id = await newPlan()
    await passDate('findings.action_plan', 'due_on', id)
    return id
  },
  'evidence.uploaded': async () => await upload('a,b\n'),
  'evidence.quarantined': async () => await upload(`a,b\n${malware}\n`),
  'sync_run.finished': async () => {
    const rows = ['external_id,name,type', 'E1,Payments,process', 'E2,Lending,process', ''].join('\n')
    const headers = { authorization, 'content-type': csv }
    return await create(`/api/v1/connectors/${await newConnector()}/runs`, rows, headers)
  },
  'sync_run.needs_approval': async () => {
    const rows = ['external_id,name,type', 'E3,Custody,process', ''].join('\n')
    const headers = { authorization, 'content-type': csv }
    return await create(`/api/v1/connectors/${await newConnector()}/runs`, rows, headers)
  },
  'audit.key': async () => await auditEvent(`category=key&resource=${(await newKey()).id}`),
  'audit.key_policy': async () => {
    await call('PATCH', '/api/v1/key-policy', { body: { rotation_days: 80 } })
    return await auditEvent('category=key_policy')
  },
  'audit.evidence': async () => await auditEvent(`category=evidence&resource=${await upload('c,d\n')}`),
  'audit.connector': async () => await auditEvent(`category=connector&resource=${await newConnector()}`),
  'audit.webhook': async () => {
    const { id } = await openEndpoint('/other', ['webhook.paused'])
    return await auditEvent(`category=webhook&resource=${id}`)
  },
  'audit.directory': async () => await auditEvent(`category=directory&resource=${await deactivatePerson()}`),
  'audit.tenant': async () => {
    const body = { name: 'Another name' }
    const { status } = await stack.operator.call(operator, 'POST', `${internalPaths.tenants}/${tenant.id}`, { body })
    expect(status).toBe(200)
    return await auditEvent('category=tenant&action=tenant.changed')
  },
  'audit.sign_in': async () => {
    await reportSignIn()
    return await auditEvent('category=sign_in&action=sign_in.succeeded')
  },
  'webhook.paused': async () => {
    const { id } = await openEndpoint('/gone', ['webhook.paused'])
    await call('POST', `/api/v1/webhooks/${id}/deliveries`)
    return id
  },
  'webhook.test': async () => {
    await call('POST', `/api/v1/webhooks/${endpoint.id}/deliveries`)
    return endpoint.id
  },
}

const types = Object.entries(cases).filter(([type]) => typeof program !== 'string' || type !== 'evidence.quarantined')

describe('an event of each type is delivered once', () => {
  const resources = new Map<string, string>()
  const deliveriesOf = (type: string) =>
    receiver.at('/hook').filter(({ body }) => body.type === type && body.data.id === resources.get(type))

  beforeAll(async () => {
    for (const [type, make] of types) resources.set(type, await make())
  }, 240_000)

  test('the table has every type of the catalogue', () => {
    expect(Object.keys(cases).toSorted()).toEqual(Object.keys(webhookEventTypes).toSorted())
  })

  test.each(types)('%s', async (type) => {
    await expect.poll(() => deliveriesOf(type).length, { timeout: 180_000, interval: 250 }).toBeGreaterThan(0)
    const [first, ...others] = deliveriesOf(type)
    if (first === undefined) throw new Error('nothing was delivered')
    const { timestamp, data } = webhookPayloadSchema.parse(verify(endpoint.secret, first))
    expect(Math.abs(Date.parse(timestamp) - Date.now())).toBeLessThan(3_600_000)
    expect(data.url).toContain(data.id)
    expect(others.map(({ id }) => id)).toEqual([])
    expect(first.text).not.toContain(key)
  })

  test('none is delivered again, or with another id', () => {
    expect(types.map(([type]) => [type, deliveriesOf(type).length])).toEqual(types.map(([type]) => [type, 1]))
  })
})
