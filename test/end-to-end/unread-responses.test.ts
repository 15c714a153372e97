import { upstreams } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'
import { type Measured, createUnreadConnections, residentBytes, shippedLimit } from '../support/unread-answers.ts'

/** Requests of another tenant during an attack. Memory is measured after each. */
const looks = 60
/** What Node gives its heap in a container of 512 MiB. */
const heapLimit = '--max-old-space-size=256'
const identified = z.object({ id: z.string() })

let stack: TestStack
let issuer: RunningIssuer
/** The credentials of the attacking tenant and of another one, of a key and of a person. */
let attacker = { key: '', person: '' }
let neighbour = { key: '', person: '' }
let runId = ''
let fileId = ''
const connections = createUnreadConnections()

beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({
    env: {
      POSTERN_CHECK_ANSWERS: 'off',
      POSTERN_REQUEST_LOG: 'off',
      NODE_OPTIONS: heapLimit,
      POSTERN_OIDC_ISSUER: issuer.url,
    },
  })
  const [own, other] = [await stack.createTenant(), await stack.createTenant()]
  attacker = await credentialsOf(own)
  neighbour = await credentialsOf(other)
  const client = new Client({ connectionString: stack.database.url('superuser') })
  await client.connect()
  await client.query('update keys.tenant set key_limit = 1000000, tenant_limit = 1000000')
  await client.end()
  await pushLongTexts()
  runId = await runConnector()
  fileId = await uploadLargeFile()
})

afterEach(() => connections.closeAll())
afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

const origin = (): string => stack.gateways[0] ?? ''

async function credentialsOf(tenant: Awaited<ReturnType<TestStack['createTenant']>>) {
  const { key } = await stack.createKey(tenant, { scopes: ['*'] })
  const token = await issuer.issue({ tenantId: tenant.id, roles: ['admin', 'auditor'], expiresInSeconds: 7200 })
  return { key: `ApiKey ${key}`, person: `Bearer ${token}` }
}

async function post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<unknown> {
  const answer = await send(origin(), path, {
    method: 'POST',
    body,
    headers: { authorization: attacker.key, ...headers },
  })
  if (answer.status >= 300) throw new Error(`${path} was answered ${answer.status} ${answer.text.slice(0, 300)}`)
  return answer.json
}

/** 500 entities of 20 KB and 500 test procedures of 40 KB. */
async function pushLongTexts(): Promise<void> {
  const text = 'x'.repeat(19_900)
  for (let push = 0; push < 5; push += 1) {
    const keys = Array.from({ length: 100 }, (_, at) => `k${push * 100 + at}`)
    await post(
      '/api/v1/sync/entities',
      keys.map((key) => ({ external_id: key, name: key, type: 'process', description: text })),
    )
    await post(
      '/api/v1/sync/test-procedures',
      keys.map((key) => ({ external_id: key, title: key, objective: text, procedure_text: text })),
    )
  }
}

/** A run whose 1,000 changes hold 10 KB each. */
async function runConnector(): Promise<string> {
  const connector = { key: 'csv', name: 'A file', type: 'csv', dataset: 'auditable_entities' }
  const { id } = identified.parse(await post('/api/v1/connectors', connector))
  const rows = Array.from({ length: 1000 }, (_, at) => `row${at},Row ${at},process,${'y'.repeat(10_000)}`)
  const csv = ['external_id,name,type,description', ...rows].join('\n')
  const path = `/api/v1/connectors/${id}/runs?mode=dry_run`
  const run = identified.parse(await post(path, csv, { 'content-type': 'text/csv' }))
  await vi.waitFor(
    async () => {
      const { text } = await send(origin(), `/api/v1/sync-runs/${run.id}`, { headers: { authorization: attacker.key } })
      expect(text).toContain('"succeeded"')
    },
    { timeout: 60_000, interval: 250 },
  )
  return run.id
}

async function uploadLargeFile(): Promise<string> {
  const file = identified.parse(
    await post('/api/v1/evidence?file_name=large.txt', 'z'.repeat(32 * 1024 * 1024), { 'content-type': 'text/plain' }),
  )
  return file.id
}

interface Ask {
  readonly connections: number
  readonly target: string
  readonly accept?: string
  /** Requests that are sent ahead on each connection. */
  readonly times?: number
}

interface Attack {
  readonly as: 'key' | 'person'
  readonly asks: () => readonly Ask[]
  /** What the other tenant reads meanwhile. */
  readonly neighbourReads: string
}

const attacks: Readonly<Record<string, Attack>> = {
  'universe: 600 pages of long entities asked for ahead on one connection': {
    as: 'key',
    asks: () => [{ connections: 1, target: '/api/v1/entities?limit=1000', times: 600 }],
    neighbourReads: '/api/v1/entities',
  },
  'universe: 190 connections that ask for pages of long entities and test procedures': {
    as: 'key',
    asks: () => [
      { connections: 95, target: '/api/v1/entities?limit=1000', times: 3 },
      { connections: 95, target: '/api/v1/test-procedures?limit=1000', times: 3 },
    ],
    neighbourReads: '/api/v1/entities',
  },
  'universe: 190 connections that export entities and test procedures': {
    as: 'key',
    asks: () => [
      { connections: 95, target: '/api/v1/entities', accept: 'text/csv' },
      { connections: 95, target: '/api/v1/test-procedures', accept: 'application/x-ndjson' },
    ],
    neighbourReads: '/api/v1/test-procedures',
  },
  'findings: 190 connections that follow the change feed': {
    as: 'key',
    asks: () => [{ connections: 190, target: '/api/v1/changes?limit=1000', times: 3 }],
    neighbourReads: '/api/v1/changes',
  },
  'sync: 190 connections that ask for the long changes of a run': {
    as: 'key',
    asks: () => [{ connections: 190, target: `/api/v1/sync-runs/${runId}/changes?limit=1000`, times: 3 }],
    neighbourReads: '/api/v1/sync-runs',
  },
  'sync: 190 connections that follow the events of a run': {
    as: 'key',
    asks: () => [
      { connections: 190, target: `/api/v1/sync-runs/${runId}/events`, accept: 'text/event-stream', times: 3 },
    ],
    neighbourReads: '/api/v1/sync-runs',
  },
  'evidence: 190 connections that download a file of 32 MiB': {
    as: 'person',
    asks: () => [{ connections: 190, target: `/api/v1/evidence-files/${fileId}/content` }],
    neighbourReads: '/api/v1/evidence-files',
  },
  'keys: 190 connections that list keys': {
    as: 'person',
    asks: () => [{ connections: 190, target: '/api/v1/api-keys?limit=100', times: 20 }],
    neighbourReads: '/api/v1/api-keys',
  },
}

function begin({ connections: count, target, accept = '*/*', times = 1 }: Ask, authorization: string): void {
  const request = `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\nAccept: ${accept}\r\n\r\n`
  connections.open(origin(), count, request.repeat(times))
}

describe.skipIf(process.platform !== 'linux')(
  'no service reaches its shipped memory limit, and another tenant is served, while nothing is read by',
  () => {
    test.each(Object.entries(attacks))('%s', async (_what, { as, asks, neighbourReads }) => {
      const authorization = attacker[as]
      // A control: what is asked for is answered where somebody reads it.
      for (const { target, accept = '*/*' } of asks()) {
        expect((await send(origin(), target, { headers: { authorization, accept } })).status, target).toBe(200)
      }
      const most = new Map<Measured, number>()
      for (const ask of asks()) begin(ask, authorization)
      for (let look = 0; look < looks; look += 1) {
        const { status, text } = await send(origin(), neighbourReads, {
          headers: { authorization: neighbour[as] },
        })
        expect(`${status} ${status === 200 ? '' : text}`, `answer ${look}`).toBe('200 ')
        for (const name of [...upstreams, 'gateway'] as const) {
          most.set(name, Math.max(most.get(name) ?? 0, residentBytes(stack, name)))
        }
      }
      for (const [name, bytes] of most) expect(bytes, name).toBeLessThan(shippedLimit(name))
    })
  },
)
