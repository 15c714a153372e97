import { once } from 'node:events'
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import type { Upstream } from '@postern/contracts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { readScenarios } from '../src/demo/scenario.ts'
import { seed } from '../src/seed.ts'
import type { SignedCaller } from '../src/signed-caller.ts'
import { type TestStack, startTestStack } from '../src/testing/index.ts'

const person = { kind: 'user', id: 'u-1', label: 'Ada', roles: ['admin'] } as const

let stack: TestStack
const servers: Server[] = []
/** Of each operation, how many answers were 503. */
const refusals = new Map<string, number>()

beforeAll(async () => {
  stack = await startTestStack()
})
afterAll(async () => {
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
  await stack.stop()
})

/** Answers each operation with 503 twice: before the service gets the request, and instead of its answer. */
async function withOutages(target: string): Promise<string> {
  const server = createServer((request, response) => void forward(target, request, response))
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return typeof address === 'object' && address !== null ? `http://127.0.0.1:${address.port}` : ''
}

async function forward(target: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await buffer(request)
  const path = (request.url ?? '').split('?', 1)[0] ?? ''
  const operation = `${target} ${request.method} ${path.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '{id}')}`
  const refused = refusals.get(operation) ?? 0
  if (refused < 2) refusals.set(operation, refused + 1)
  if (refused === 0) return void response.writeHead(503).end('busy')
  const { host: _host, connection: _connection, ...headers } = request.headers
  const answer = await fetch(`${target}${request.url}`, {
    method: request.method ?? 'GET',
    headers: Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]),
    ...(body.length === 0 ? {} : { body: new Uint8Array(body) }),
  })
  const text = await answer.text()
  if (refused === 1) return void response.writeHead(503).end('busy')
  const named = ['content-type', 'etag', 'link'].flatMap((name) => {
    const value = answer.headers.get(name)
    return value === null ? [] : [[name, value] as const]
  })
  response.writeHead(answer.status, Object.fromEntries(named)).end(text)
}

test('the demo is complete and nothing exists twice although each of its operations is answered with 503', async () => {
  const [gateway = ''] = stack.gateways
  const urls = {
    keys: await withOutages(stack.serviceUrl('keys')),
    evidence: await withOutages(stack.serviceUrl('evidence')),
  }
  const [, scenario] = readScenarios()
  const target = {
    services: {
      url: (name: Upstream) => (name === 'keys' || name === 'evidence' ? urls[name] : stack.serviceUrl(name)),
      gateways: [await withOutages(gateway)],
    },
    secrets: {
      rings: {
        POSTERN_ASSERTION_KEYS: stack.database.assertionKeys,
        POSTERN_SIGNING_OPERATOR: stack.ring('POSTERN_SIGNING_OPERATOR'),
        POSTERN_SIGNING_EVIDENCE: stack.ring('POSTERN_SIGNING_EVIDENCE'),
      },
    },
    databaseUrl: stack.database.url,
  }
  const demo = await seed(stack.home, target, 1, undefined, [scenario])
  expect([...refusals.values()].every((count) => count === 2)).toBe(true)
  expect(refusals.size).toBeGreaterThan(15)

  const { id = '', keys } = demo.tenants[scenario.slug] ?? {}
  const found = await fetch(`${gateway}/api/v1/findings?count=true&limit=1`, {
    headers: { authorization: `ApiKey ${keys?.['*']}` },
  })
  expect([found.status, found.headers.get('x-total-count')]).toEqual([200, String(scenario.counts.findings.all)])
  await found.text()

  const list = async (caller: SignedCaller, path: string) =>
    z.array(z.record(z.string(), z.unknown())).parse((await caller.call({ ...person, tenantId: id }, 'GET', path)).json)
  const files = await list(stack.caller('evidence'), '/api/v1/evidence-files?limit=1000')
  expect(files.length).toBeGreaterThan(3)
  expect(new Set(files.map(({ file_name: name }) => name)).size).toBe(files.length)
  const stored = await list(stack.caller('keys'), '/api/v1/api-keys?limit=1000')
  const usable = stored.flatMap(({ label, state }) => (state === 'revoked' ? [] : [label]))
  expect(new Set(usable).size).toBe(usable.length)
  expect(stored.map(({ label }) => label)).toEqual(expect.arrayContaining(scenario.keys.map(({ label }) => label)))
})
