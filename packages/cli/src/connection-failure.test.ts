import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, type Server, createServer } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { generate } from 'selfsigned'
import { withGateway } from './gateway.ts'
import { describeConnectionFailure, isBeforeRequest } from './connection-failure.ts'

const servers: Server[] = []
const ports: Record<string, number> = {}

beforeAll(async () => {
  const day = 86_400_000
  const certificate = async (from: number, to: number) =>
    await generate([{ name: 'commonName', value: 'localhost' }], {
      notBeforeDate: new Date(Date.now() + from * day),
      notAfterDate: new Date(Date.now() + to * day),
    })
  const valid = await certificate(-1, 1)
  const answer = createHttpServer((_request, response) => response.end())
  const tls = createHttpsServer({ key: valid.private, cert: valid.cert }, (_request, response) => response.end())
  const redirect = createHttpServer((_request, response) => response.writeHead(302, { location: '/sign-in' }).end())
  const hangUp = createServer((socket) => socket.on('error', () => undefined).destroy())
  const other = createServer((socket) => socket.on('error', () => undefined).write('SSH-2.0-OpenSSH\r\n'))
  for (const [name, server] of Object.entries({ answer, tls, redirect, hangUp, other })) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    ports[name] = portOf(server)
    servers.push(server)
  }
  const free = createServer()
  await new Promise<void>((resolve) => free.listen(0, '127.0.0.1', resolve))
  ports['free'] = portOf(free)
  await new Promise((resolve) => free.close(resolve))
})

afterAll(() => {
  for (const server of servers) server.close()
})

function portOf(server: Server): number {
  const address: AddressInfo | string | null = server.address()
  return address === null || typeof address === 'string' ? expect.fail('no port') : address.port
}

async function failureOf(url: URL): Promise<unknown> {
  return await fetch(url, { redirect: 'error' }).then(
    () => expect.fail('was answered'),
    (error: unknown) => error,
  )
}

test.each([
  ['a certificate of an unknown authority', 'https', 'tls', 'NODE_EXTRA_CA_CERTS', true],
  ['a server without TLS', 'https', 'answer', 'does not speak TLS on this port', true],
  ['a server with TLS, asked without', 'http', 'tls', 'should begin with https://', false],
  ['a closed port', 'http', 'free', 'nothing listens at', true],
  ['a server that hangs up', 'http', 'hangUp', 'closed the connection', false],
  ['a server that is not HTTP', 'http', 'other', 'did not answer with HTTP', false],
] as const)('the cause is named: %s', async (_what, scheme, server, words, before) => {
  const url = new URL(`${scheme}://127.0.0.1:${ports[server]}`)
  const error = await failureOf(url)
  expect(describeConnectionFailure(error, url)).toContain(words)
  expect(isBeforeRequest(error)).toBe(before)
})

test('the cause is named: a server that redirects', async () => {
  const context = {
    env: { POSTERN_URL: `http://127.0.0.1:${ports['redirect']}`, POSTERN_API_KEY: `postern_${'k3Y'.repeat(16)}z` },
    print: () => undefined,
    note: () => undefined,
    progress: () => undefined,
  }
  const asked = withGateway(context, async (client) => await client.whoami())
  await expect(asked).rejects.toMatchObject({
    message: expect.stringContaining('redirects to another address'),
    exitCode: 5,
  })
})

test('the cause is named: a host name that does not exist', async () => {
  const url = new URL('http://postern.invalid:8080')
  const error = await failureOf(url)
  expect(describeConnectionFailure(error, url)).toMatch(
    /^the host name postern\.invalid (?:cannot|could not) be resolved/,
  )
  expect(isBeforeRequest(error)).toBe(true)
})

test.each([
  ['CERT_HAS_EXPIRED', 'has expired'],
  ['CERT_NOT_YET_VALID', 'is not valid yet'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'is for another host name than gateway.example'],
])('the cause is named: %s', (code, words) => {
  const error = new TypeError('fetch failed', { cause: Object.assign(new Error('tls'), { code }) })
  expect(describeConnectionFailure(error, new URL('https://gateway.example'))).toContain(words)
})

test('an unknown cause keeps its own words', () => {
  const error = new TypeError('fetch failed', { cause: new Error('bad port') })
  expect(describeConnectionFailure(error, new URL('https://gateway.example'))).toBe(
    'https://gateway.example does not answer (bad port)',
  )
})
