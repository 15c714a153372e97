import { readFileSync } from 'node:fs'
import { type Socket, connect } from 'node:net'
import { join } from 'node:path'
import { type Upstream, upstreams } from '@postern/contracts'
import { startTestStack, type TestStack } from '@postern/local-stack/testing'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { send } from '../support/http.ts'

const mebibyte = 1024 * 1024
/** Requests of another tenant during an attack, behind each of which memory is looked at. */
const looks = 300
/** What Node gives its heap in a container of 512 MiB. */
const heapLimit = '--max-old-space-size=256'
const composeSchema = z.looseObject({ services: z.record(z.string(), z.looseObject({ mem_limit: z.string() })) })
const scopes = ['*'] as const

let stack: TestStack
/** The key of the tenant that attacks, and that of another one. */
let key = ''
let other = ''
const sockets = new Set<Socket>()

beforeAll(async () => {
  stack = await startTestStack({
    env: { POSTERN_CHECK_ANSWERS: 'off', POSTERN_REQUEST_LOG: 'off', NODE_OPTIONS: heapLimit },
  })
  const [attacker, neighbour] = [await stack.createTenant(), await stack.createTenant()]
  const client = new Client({ connectionString: stack.database.url('superuser') })
  await client.connect()
  await client.query('update keys.tenant set key_limit = 1000000, tenant_limit = 1000000')
  await client.end()
  key = (await stack.createKey(attacker, { scopes })).key
  other = (await stack.createKey(neighbour, { scopes })).key
  const text = 'x'.repeat(12_500)
  const long = { title: 'Long', severity: 'high', condition: text, criteria: text, cause: text, consequence: text }
  for (let bulk = 0; bulk < 10; bulk += 1) {
    const items = Array.from({ length: 96 }, () => long)
    const body = { mode: 'atomic', items }
    const made = await send(origin(), '/api/v1/findings/bulk', { key, method: 'POST', body })
    if (made.status !== 200) throw new Error(`the findings were not made: ${made.text.slice(0, 300)}`)
  }
  const exported = await send(origin(), poam, { key, method: 'HEAD' })
  if (exported.status !== 200) throw new Error(`there is no plan of action: ${exported.status}`)
})

afterEach(() => {
  for (const socket of sockets) socket.destroy()
})
afterAll(async () => await stack.stop())

function origin(): string {
  return stack.gateways[0] ?? ''
}

/** The shipped limit of a service, in bytes. */
function shippedLimit(name: Upstream | 'gateway'): number {
  const text = readFileSync(join(import.meta.dirname, '../../deploy/compose.yaml'), 'utf8')
  const limit = composeSchema.parse(parse(text, { merge: true })).services[name]?.mem_limit ?? ''
  const [, number, unit] = /:-(\d+)([mg])\}$/.exec(limit) ?? []
  return Number(number) * mebibyte * (unit === 'g' ? 1024 : 1)
}

function residentBytes(name: Upstream | 'gateway'): number {
  const { pid } = stack.process(name === 'gateway' ? 'gateway-1' : name)
  const [, kibibytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kibibytes) * 1024
}

/** Opens connections that send these bytes, and read nothing. */
function open(count: number, bytes: string): void {
  for (let at = 0; at < count; at += 1) {
    const socket = connect(Number(new URL(origin()).port), '127.0.0.1')
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => sockets.delete(socket))
    socket.pause()
    socket.write(bytes, 'latin1')
  }
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
      const most = new Map<Upstream | 'gateway', number>()
      for (const name of ['findings', 'sync', 'gateway-1'] as const) await stack.restart(name)
      attack()
      for (let look = 0; look < looks; look += 1) {
        const answer = await send(origin(), '/api/v1/findings', { key: other })
        expect(`${answer.status} ${answer.text}`, `answer ${look}`).toBe('200 []')
        for (const name of [...upstreams, 'gateway'] as const) {
          most.set(name, Math.max(most.get(name) ?? 0, residentBytes(name)))
        }
      }
      for (const [name, bytes] of most) expect(bytes, name).toBeLessThan(shippedLimit(name))
    })
  },
)
