/**
 * @promise Tenants: A tenant that floods a service gets 429 or 503, while requests of other tenants succeed.
 * @alsoShownBy test/end-to-end/unread-responses.test.ts
 */

import { upstreams } from '@postern/contracts'
import { startTestStack, type TestStack } from '@postern/local-stack/testing'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { send } from '../support/http.ts'
import { createUnlimitedKey, documentLongFindings, pipelineLargePages, readLargePages } from '../support/large-pages.ts'
import { type Measured, createUnreadConnections, residentBytes, shippedLimit } from '../support/unread-answers.ts'

/** Requests of another tenant during an attack, with a memory measurement after each. */
const looks = 300
/** What Node gives its heap in a container of 512 MiB. */
const heapLimit = '--max-old-space-size=256'

let stack: TestStack
/** The key of the tenant that attacks, and that of another one. */
let key = ''
let other = ''
const connections = createUnreadConnections()

beforeAll(async () => {
  stack = await startTestStack({
    env: { POSTERN_CHECK_ANSWERS: 'off', POSTERN_REQUEST_LOG: 'off', NODE_OPTIONS: heapLimit },
  })
  key = await createUnlimitedKey(stack)
  other = await createUnlimitedKey(stack)
  await documentLongFindings(origin(), key)
  const exported = await send(origin(), poam, { key, method: 'HEAD' })
  if (exported.status !== 200) throw new Error(`there is no plan of action: ${exported.status}`)
})

afterEach(() => connections.closeAll())
afterAll(async () => await stack.stop())

function origin(): string {
  return stack.gateways[0] ?? ''
}

/** Opens connections that send these bytes, and read nothing. */
const open = (count: number, bytes: string): void => connections.open(origin(), count, bytes)

/** Reads for both tenants until the service has all its connections to PostgreSQL: to open one takes long on a busy machine. */
async function openDatabaseConnections(): Promise<void> {
  for (let round = 0; round < 3; round += 1) {
    const reads = Array.from({ length: 32 }, async (_, at) => {
      await send(origin(), '/api/v1/findings?limit=1', { key: at % 2 === 0 ? key : other })
    })
    await Promise.all(reads)
  }
}

/** Returns the log lines of a request. */
async function logLinesOf(requestId: string | string[] | undefined): Promise<string[]> {
  if (typeof requestId !== 'string') return []
  return (await stack.logs()).split('\n').filter((line) => line.includes(requestId))
}

/** The findings are drafts, which an export leaves out unless it asks for them. */
const poam = '/api/v1/exports/poam.json?status=draft'

const get = (target: string, more = ''): string =>
  `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: ApiKey ${key}\r\n${more}\r\n`
const halfOf = (target: string, length: number): string =>
  `POST ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: ApiKey ${key}\r\nContent-Type: application/json\r\n` +
  `Content-Length: ${length}\r\n\r\n${' '.repeat(length - 1)}`

const attacks = {
  '600 pages of long findings that are asked for ahead on one connection': () => {
    open(1, get('/api/v1/findings?limit=1000').repeat(600))
  },
  '190 connections that ask for pages of long findings': () => open(190, get('/api/v1/findings?limit=1000')),
  '190 connections that ask for findings with all that belongs to them': () => {
    open(190, get('/api/v1/findings?expand=log,action_plans,recommendations,entities&limit=100').repeat(3))
  },
  '190 connections that ask for pages of the remediation log': () => {
    open(190, get('/api/v1/remediation-log?limit=1000').repeat(3))
  },
  '190 connections that export findings and the remediation log': () => {
    for (const target of ['/api/v1/findings', '/api/v1/remediation-log']) {
      open(48, get(target, 'Accept: application/x-ndjson\r\n'))
      open(47, get(target, 'Accept: text/csv\r\n'))
    }
  },
  '190 connections that export a plan of action and milestones': () => open(190, get(poam)),
  '190 connections with all but the last byte of a bulk': () => open(190, halfOf('/api/v1/findings/bulk', 8_000_000)),
  '60 connections with all but the last byte of a push': () => open(60, halfOf('/api/v1/sync/entities', 16_000_000)),
} as const

describe.skipIf(process.platform !== 'linux')(
  'no service reaches its shipped limit of memory, and another tenant is served, while nothing is read by',
  () => {
    test.each(Object.entries(attacks))('%s', async (_what, attack) => {
      const most = new Map<Measured, number>()
      for (const name of ['findings', 'gateway-1'] as const) await stack.restart(name)
      await openDatabaseConnections()
      attack()
      for (let look = 0; look < looks; look += 1) {
        const answer = await send(origin(), '/api/v1/findings', { key: other })
        const logged = answer.status === 200 ? [] : await logLinesOf(answer.headers['x-request-id'])
        expect({ look, status: answer.status, text: answer.text, logged }).toEqual({
          look,
          status: 200,
          text: '[]',
          logged: [],
        })
        for (const name of [...upstreams, 'gateway'] as const) {
          most.set(name, Math.max(most.get(name) ?? 0, residentBytes(stack, name)))
        }
      }
      for (const [name, bytes] of most) expect(bytes, name).toBeLessThan(shippedLimit(name))
    })
  },
)

describe('while one key sends 600 requests for large pages ahead and reads none, and reads others over 190 connections', () => {
  test('another tenant reads and documents findings without failures, and the key is served or gets 429 or 503', async () => {
    await stack.restart('findings')
    await openDatabaseConnections()
    const limit = { maxMs: 240_000 }
    const unread = pipelineLargePages(origin(), key, limit)
    const readers = readLargePages(stack.gateways, key, { count: 190, ...limit })
    const finding = { title: 'Short', severity: 'low', condition: 'Seen.' }
    for (let look = 0; look < 60; look += 1) {
      const list = await send(origin(), '/api/v1/findings?limit=5', { key: other })
      const made = await send(origin(), '/api/v1/findings', { key: other, method: 'POST', body: finding })
      expect({ look, statuses: [list.status, made.status], text: made.text }).toMatchObject({ statuses: [200, 201] })
    }
    await expect.poll(() => readers.answers.get(200) ?? 0, { timeout: 60_000 }).toBeGreaterThan(0)
    await Promise.all([unread.stop(), readers.stop()])
    // 503: too many requests wait for a connection to the service.
    expect({ lost: readers.answers.get(0) ?? 0, unexpected: readers.unexpected }).toEqual({ lost: 0, unexpected: [] })
  }, 300_000)
})

describe('after one key has requested hundreds of pages and exports and disconnected', () => {
  test('the service holds no memory for it and serves its pages again', async () => {
    await stack.restart('findings')
    for (let round = 0; round < 5; round += 1) {
      open(50, get('/api/v1/findings?limit=1000'))
      open(50, get('/api/v1/findings', 'Accept: text/csv\r\n'))
      // As soon as some of them are being read.
      await expect.poll(async () => await metric('postern_held_bytes')).toBeGreaterThan(0)
      connections.closeAll()
    }
    await expect.poll(async () => await metric('postern_held_bytes')).toBe(0)
    const page = await send(origin(), '/api/v1/findings?limit=1000', { key })
    expect(page.status).toBe(200)
  })
})

/** A gauge of the findings service. */
async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${stack.serviceUrl('findings')}/internal/metrics`)).text()
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1])
}
