import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import { createVerifier, nilTenantId, noAssertion, parseKeyRing } from '@postern/signed-context'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { z } from 'zod'
import { type ServiceClient, createServiceClient, serviceCaller } from './service-client.ts'

const ring = parseKeyRing(`k1:${randomBytes(32).toString('base64url')}`)
const keyName = 'findings-peer'
const schema = z.strictObject({ known: z.boolean() })
const closers: (() => void)[] = []

afterEach(() => {
  for (const close of closers.splice(0)) close()
})

type Answer = (before: number, request: IncomingMessage, response: ServerResponse) => void

/** Starts a service and a client of it. `answer` receives the number of earlier requests. */
async function startService(
  answer: Answer,
  {
    path = '',
    ...options
  }: { readonly path?: string; readonly timeoutMs?: number; readonly maxAnswerBytes?: number } = {},
): Promise<{ client: ServiceClient; received: () => number }> {
  let received = 0
  const server = createServer((request, response) => {
    request.resume().once('end', () => {
      received += 1
      answer(received - 1, request, response)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const client = createServiceClient({
    service: 'The peer',
    baseUrl: `${urlOf(server.address())}${path}`,
    keyName,
    ring,
    timeoutMs: 20_000,
    ...options,
  })
  return { client, received: () => received }
}

function urlOf(address: ReturnType<ReturnType<typeof createServer>['address']>): string {
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `http://127.0.0.1:${address.port}`
}

const context = {
  tenantId: nilTenantId,
  kind: 'api_key',
  id: 'some-key',
  label: 'A key',
  scopes: [],
  roles: [],
  assertion: noAssertion,
} as const
const question = {
  ...serviceCaller('findings', { context, requestId: 'request-id-1' }),
  target: '/internal/v1/x',
  body: {},
}

test('a read whose connection is lost is sent once more, with a new signature', async () => {
  const verifier = createVerifier(ring, keyName)
  const verdicts: boolean[] = []
  const { client } = await startService((before, request, response) => {
    const { method = '', url: target = '', rawHeaders: headers } = request
    verdicts.push(verifier.verify({ method, target, headers }, Date.now()).ok)
    if (before === 0) request.socket.destroy()
    else response.end('{"known":true}')
  })
  expect(await client.ask(schema, question)).toEqual({ known: true })
  // The verifier would reject the same nonce a second time.
  expect(verdicts).toEqual([true, true])
})

test('a read that always loses its connection is sent twice at most', async () => {
  const { client, received } = await startService((_before, request) => request.socket.destroy())
  await expect(client.ask(schema, question)).rejects.toMatchObject({
    name: 'ServiceUnavailableError',
    service: 'The peer',
  })
  expect(received()).toBe(2)
})

test.each([
  ['another status', (response: ServerResponse) => response.writeHead(503).end('{"known":true}')],
  ['no JSON', (response: ServerResponse) => response.end('<html>')],
  ['another shape', (response: ServerResponse) => response.end('{"known":1}')],
  ['a redirect', (response: ServerResponse) => response.writeHead(302, { location: '/elsewhere' }).end()],
])('a question that gets %s is not repeated, and rejects', async (_what, end) => {
  const { client, received } = await startService((_before, _request, response) => void end(response))
  await expect(client.ask(schema, question)).rejects.toMatchObject({ name: 'ServiceUnavailableError' })
  expect(received()).toBe(1)
})

const endLong: Answer = (_before, _request, response) => void response.end(`{"known":true}${' '.repeat(2000)}`)

test('an answer beyond the limit of bytes rejects', async () => {
  const { client } = await startService(endLong, { maxAnswerBytes: 1000 })
  await expect(client.ask(schema, question)).rejects.toMatchObject({ name: 'ServiceUnavailableError' })
  const { client: patient } = await startService(endLong)
  expect(await patient.ask(schema, question)).toEqual({ known: true })
})

test('a request that may have been executed is sent once, and its error says so', async () => {
  const { client, received } = await startService((_before, request) => request.socket.destroy())
  await expect(client.send(question)).rejects.toMatchObject({
    name: 'NoAnswerError',
    isUnsent: false,
    isTimeout: false,
  })
  expect(received()).toBe(1)
})

test('a request that times out is distinguished', async () => {
  const { client } = await startService(() => undefined, { timeoutMs: 100 })
  await expect(client.send(question)).rejects.toMatchObject({ name: 'NoAnswerError', isUnsent: false, isTimeout: true })
})

test('a refused connection means that the request was not sent', async () => {
  const client = createServiceClient({
    service: 'Nobody',
    baseUrl: 'http://127.0.0.1:9',
    keyName,
    ring,
    timeoutMs: 20_000,
  })
  await expect(client.send(question)).rejects.toMatchObject({ name: 'NoAnswerError', isUnsent: true, isTimeout: false })
})

test('an answer is streamed before its end is there', async () => {
  const started = Promise.withResolvers<ServerResponse>()
  const { client } = await startService((_before, _request, response) => {
    response.write('first ')
    started.resolve(response)
  })
  const body = await client.stream(question)
  const response = await started.promise
  response.end('last')
  expect(await text(body)).toBe('first last')
})

test.each([
  ['another status', (response: ServerResponse) => response.writeHead(409).end('{}')],
  ['no answer', (response: ServerResponse) => response.destroy()],
])('a stream with %s rejects', async (_what, end) => {
  const { client } = await startService((_before, _request, response) => void end(response))
  await expect(client.stream(question)).rejects.toMatchObject({ name: 'ServiceUnavailableError', service: 'The peer' })
})

test('the path of the base URL comes before the target, and the signature covers it', async () => {
  const verifier = createVerifier(ring, keyName)
  const seen: unknown[] = []
  const { client } = await startService(
    (_before, { method = '', url: target = '', rawHeaders: headers }, response) => {
      seen.push(target, verifier.verify({ method, target, headers }, Date.now()).ok)
      response.writeHead(204).end()
    },
    { path: '/below' },
  )
  expect(await client.send({ ...question, method: 'GET', body: undefined })).toMatchObject({ status: 204, text: '' })
  expect(seen).toEqual(['/below/internal/v1/x', true])
})
