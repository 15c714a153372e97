import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type FollowOptions, createPosternClient } from '@postern/client'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { retryDelayMs } from '../src/retry.ts'

const key = `postern_${'k3Y'.repeat(16)}z`
const finding = { title: 'Late', condition: 'As seen.', severity: 'high' } as const

interface Seen {
  readonly method: string | undefined
  readonly idempotencyKey: string | string[] | undefined
  readonly body: string
}

type Step = (response: ServerResponse) => void

let server: Server
let baseUrl: string
let seen: Seen[]
/** The responses in order; after them every response is 200. */
let steps: Step[]

beforeEach(async () => {
  seen = []
  steps = []
  server = createServer((request, response) => void take(request, response))
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', resolve)
  await promise
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it listens on a port
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(Buffer.from(chunk))
  const { method, headers } = request
  seen.push({ method, idempotencyKey: headers['idempotency-key'], body: Buffer.concat(chunks).toString() })
  const step = steps.shift()
  if (step === undefined) response.end('{"id":"1"}')
  else step(response)
}

function refuse(status: number, code: string, retryAfter?: string): Step {
  return (response) => {
    const problem = { type: 'about:blank', title: 'No', status, code, instance: 'req-1' }
    const headers = retryAfter === undefined ? {} : { 'retry-after': retryAfter }
    response.writeHead(status, { 'content-type': 'application/problem+json', ...headers }).end(JSON.stringify(problem))
  }
}

const cutOff: Step = (response) => response.destroy()
const brokenOff: Step = (response) =>
  void response.writeHead(200, { 'content-length': '10' }).write('{"id', () => response.destroy())

/** The response to a complete resumable upload of four bytes. */
const allArrived: Step = (response) => response.writeHead(204, { 'upload-offset': '4' }).end()

function client(options = {}): ReturnType<typeof createPosternClient> {
  return createPosternClient({ baseUrl, key, ...options })
}

describe('a request is not retried', () => {
  test.each([
    [400, 'bad_request'],
    [401, 'key_revoked'],
    [404, 'not_found'],
    [409, 'conflict'],
    [413, 'quota_exceeded'],
    [422, 'idempotency_key_reused'],
    [500, 'internal_error'],
    [507, 'insufficient_storage'],
  ])('after %i %s', async (status, code) => {
    steps = [refuse(status, code)]
    await expect(client().findings.create(finding)).rejects.toMatchObject({ status, code })
    expect(seen).toHaveLength(1)
  })

  test.each([
    ['502', refuse(502, 'bad_gateway')],
    ['503', refuse(503, 'service_unavailable', '0')],
    ['a broken connection', cutOff],
    ['a response that breaks off', brokenOff],
  ])('after %s if it is a PATCH, which may have been applied', async (_what, step) => {
    steps = [step]
    await expect(client().findings.update('x', { severity: 'low' }, { ifMatch: '"1"' })).rejects.toThrow(
      /502|503|fetch failed|terminated/,
    )
    expect(seen).toHaveLength(1)
  })

  test('if its body is a stream', async () => {
    steps = [refuse(503, 'service_unavailable', '0')]
    const content = new Blob(['fuzz']).stream()
    await expect(client().evidence.upload({ content, fileName: 'a.txt' })).rejects.toMatchObject({ status: 503 })
    expect(seen).toHaveLength(1)
  })

  test('more often than `retries` allows', async () => {
    steps = Array.from({ length: 9 }, () => refuse(503, 'service_unavailable', '0'))
    await expect(client({ retries: 2 }).whoami()).rejects.toMatchObject({ status: 503 })
    expect(seen).toHaveLength(3)
    await expect(client({ retries: 0 }).whoami()).rejects.toMatchObject({ status: 503 })
    expect(seen).toHaveLength(4)
  })

  test('if Retry-After exceeds maxWaitMs', async () => {
    steps = [refuse(429, 'too_many_requests', '61')]
    await expect(client().whoami()).rejects.toMatchObject({ status: 429, retryAfterSeconds: 61 })
    expect(seen).toHaveLength(1)
  })

  test('forever if a complete resumable upload gets no receipt', async () => {
    steps = [(response) => response.writeHead(201, { location: `${baseUrl}/api/v1/evidence/uploads/1` }).end()]
    for (let turn = 0; turn < 40; turn += 1) steps.push(allArrived)
    const content = new Blob(['fuzz'])
    await expect(client().evidence.uploadResumably({ content, fileName: 'a.txt' })).rejects.toThrow(
      'no progress and no receipt',
    )
    const pieces = seen.filter(({ method }) => method === 'PATCH')
    expect(pieces.map(({ body }) => body)).toEqual(['fuzz', ...Array.from({ length: pieces.length - 1 }, () => '')])
    expect(pieces.length).toBeLessThan(10)
  })

  test('if its signal aborts during the wait', async () => {
    const controller = new AbortController()
    steps = [
      (response) => {
        refuse(429, 'too_many_requests', '50')(response)
        response.once('close', () => controller.abort(new Error('enough')))
      },
    ]
    await expect(client().whoami({ signal: controller.signal })).rejects.toThrow('enough')
    expect(seen).toHaveLength(1)
  })
})

describe('a request is retried', () => {
  test.each([
    ['429', refuse(429, 'too_many_requests', '0')],
    ['502', refuse(502, 'bad_gateway')],
    ['503', refuse(503, 'auth_unavailable', '0')],
    ['504', refuse(504, 'gateway_timeout')],
    ['409 while the first attempt is in progress', refuse(409, 'request_in_progress', '0')],
    ['a broken connection', cutOff],
    ['a response that breaks off', brokenOff],
    ['a Retry-After with a date', refuse(503, 'service_unavailable', new Date(0).toUTCString())],
  ])('after %s, a POST with the same Idempotency-Key', async (_what, step) => {
    steps = [step]
    expect(await client().whoami()).toEqual({ id: '1' })
    steps = [step]
    expect(await client().findings.create(finding)).toEqual({ id: '1' })
    const posts = seen.slice(2)
    expect(seen.map(({ method }) => method)).toEqual(['GET', 'GET', 'POST', 'POST'])
    expect(posts[0]?.idempotencyKey).toMatch(/^[0-9a-f-]{36}$/)
    expect(posts[1]).toEqual(posts[0])
  })

  test('with its own Idempotency-Key, which no other request has', async () => {
    await client().findings.create(finding)
    await client().findings.create(finding)
    expect(seen[0]?.idempotencyKey).not.toBe(seen[1]?.idempotencyKey)
  })

  test('after 429 even if it is a PATCH, because the API did not process it', async () => {
    steps = [refuse(429, 'too_many_requests', '0')]
    await client().findings.update('x', { severity: 'low' }, { ifMatch: '"1"' })
    expect(seen.map(({ body }) => body)).toEqual(['{"severity":"low"}', '{"severity":"low"}'])
  })

  test('for the offset of a resumable upload while the service is unavailable', async () => {
    const unavailable = refuse(503, 'service_unavailable', '0')
    const receipt = `e30.${Buffer.from('{"id":"1"}').toString('base64url')}.c2ln`
    steps = [
      (response) => response.writeHead(201, { location: `${baseUrl}/api/v1/evidence/uploads/1` }).end(),
      unavailable,
      unavailable,
      (response) => response.writeHead(200, { 'upload-offset': '0' }).end(),
      (response) => response.writeHead(204, { 'upload-offset': '4', 'postern-receipt': receipt }).end(),
    ]
    const content = new Blob(['fuzz'])
    const uploaded = await client({ retries: 0 }).evidence.uploadResumably({ content, fileName: 'a.txt' })
    expect(uploaded).toEqual({ id: '1', jws: receipt })
    expect(seen.map(({ method }) => method)).toEqual(['POST', 'PATCH', 'HEAD', 'HEAD', 'PATCH'])
  })

  test('if a page of a list or of the change feed breaks off', async () => {
    steps = [brokenOff, (response) => response.end('[]')]
    expect(await client().findings.list().all()).toEqual([])
    steps = [brokenOff, (response) => response.setHeader('postern-next-since', 'b').end('[]')]
    expect(await client().changes.read()).toEqual({ changes: [], next: 'b' })
    expect(seen).toHaveLength(4)
  })

  test('with the same bytes if it is a form', async () => {
    steps = [cutOff]
    await client().evidence.uploadAll([{ content: new Blob(['fuzz']), fileName: 'a "b".txt' }])
    expect(seen[0]?.body).toContain(String.raw`filename="a \"b\".txt"`)
    expect(seen[1]).toEqual(seen[0])
  })
})

test('a failure to get a token is thrown without a request or a retry', async () => {
  let asked = 0
  const token = async (): Promise<string> => {
    asked += 1
    return await Promise.reject(new Error('signed out'))
  }
  await expect(createPosternClient({ baseUrl, token }).findings.get('1')).rejects.toThrow('signed out')
  expect([asked, seen]).toEqual([1, []])
})

const answerless: Step = () => undefined

test('a request that times out is retried and then fails with a TimeoutError', async () => {
  steps = [answerless, answerless]
  const { findings } = createPosternClient({ baseUrl, key, timeoutMs: 500, retries: 1, maxWaitMs: 1 })
  await expect(findings.get('1')).rejects.toMatchObject({ name: 'TimeoutError' })
  expect(seen).toHaveLength(2)
})

test('waits grow, are randomized, follow Retry-After and have a limit', () => {
  const least = [1, 2, 3, 20].map((retry) => retryDelayMs(retry, undefined, 60_000, () => 0))
  const most = [1, 2, 3, 20].map((retry) => retryDelayMs(retry, undefined, 60_000, () => 1))
  expect([least, most]).toEqual([
    [125, 250, 500, 5000],
    [250, 500, 1000, 10_000],
  ])
  expect(retryDelayMs(1, 7, 60_000, () => 0)).toBe(7000)
  expect(retryDelayMs(1, 7, 60_000, () => 1)).toBe(8000)
  expect(retryDelayMs(1, 61, 60_000)).toBeUndefined()
})

const stream =
  (events: string, end: (response: ServerResponse) => void): Step =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(events, () => end(response))
  }
const event = (status: string): string => `event: run\ndata: {"status":"${status}"}\n\n`
const cut = (response: ServerResponse): void => void response.destroy()
const close = (response: ServerResponse): void => void response.end()
const followed = async (options: FollowOptions = {}): Promise<string[]> => {
  const runs: string[] = []
  for await (const { status } of client().sync.runs.follow('run-1', options)) runs.push(status)
  return runs
}

describe('following a run', () => {
  test('reconnects after streams that break off or end early', async () => {
    steps = [
      stream(event('fetching'), cut),
      stream('', cut),
      stream(event('diffing'), close),
      stream(`${event('applying')}${event('succeeded')}event: end\ndata: {}\n\n`, close),
    ]
    expect(await followed()).toEqual(['fetching', 'diffing', 'applying', 'succeeded'])
    expect(seen).toHaveLength(4)
  })

  test('survives an unreachable gateway for longer than other requests', async () => {
    const { port } = new URL(baseUrl)
    const tries = vi.spyOn(globalThis, 'fetch')
    const stopGateway: Step = (response) => {
      server.close()
      stream(event('fetching'), () => server.closeAllConnections())(response)
    }
    steps = [stopGateway, stream(`${event('succeeded')}event: end\ndata: {}\n\n`, close)]
    try {
      const all = followed()
      // The first attempt, and more than a normal request has.
      await vi.waitFor(() => expect(tries.mock.calls.length).toBeGreaterThan(1 + 4), { timeout: 20_000 })
      expect(server.listening).toBe(false)
      server.listen(Number(port), '127.0.0.1')
      expect(await all).toEqual(['fetching', 'succeeded'])
    } finally {
      tries.mockRestore()
    }
  }, 60_000)

  test('survives an unavailable service for patienceMs', async () => {
    steps = [
      ...Array.from({ length: 5 }, () => refuse(503, 'service_unavailable', '0')),
      stream(`${event('succeeded')}event: end\ndata: {}\n\n`, close),
    ]
    expect(await followed()).toEqual(['succeeded'])
    steps = [stream(event('fetching'), cut), refuse(503, 'service_unavailable', '0')]
    await expect(followed({ patienceMs: 0 })).rejects.toMatchObject({ status: 503 })
    expect(seen).toHaveLength(6 + 2)
  })

  test('ends after five streams without an event, or an error that is not temporary', async () => {
    steps = [
      stream(event('fetching'), cut),
      ...Array.from({ length: 9 }, (_, n) => stream('', n % 2 === 0 ? cut : close)),
    ]
    await expect(followed()).rejects.toThrow(TypeError)
    expect(seen).toHaveLength(6)
    steps = [stream(event('fetching'), cut), refuse(404, 'not_found')]
    await expect(followed()).rejects.toMatchObject({ status: 404 })
  }, 30_000)
})
