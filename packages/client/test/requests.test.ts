import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { type PosternClient, PosternProblem, createPosternClient } from '@postern/client'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { collect } from './collect.ts'

const key = `postern_${'k3Y'.repeat(16)}z`

interface Seen {
  readonly method: string | undefined
  readonly url: string | undefined
  readonly authorization: string | undefined
}

let server: Server
let origin: string
let seen: Seen[]
let answer: (request: IncomingMessage, response: ServerResponse) => void
let client: PosternClient

beforeEach(async () => {
  seen = []
  answer = (_request, response) => response.end('[]')
  server = createServer((request, response) => {
    seen.push({ method: request.method, url: request.url, authorization: request.headers.authorization })
    answer(request, response)
  })
  origin = await listen(server)
  client = createPosternClient({ baseUrl: origin, key, retries: 0 })
})
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

async function listen(on: Server): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<AddressInfo>()
  on.listen(0, '127.0.0.1', () => {
    const address = on.address()
    if (typeof address === 'object' && address !== null) resolve(address)
  })
  return `http://127.0.0.1:${(await promise).port}`
}

/** Returns everything that an error shows. */
function everythingOf(error: unknown): string {
  return inspect(error, { depth: 10, showHidden: true })
}

async function failureOf(work: Promise<unknown>): Promise<unknown> {
  return await work.then(
    () => expect.unreachable('it should fail'),
    (error: unknown) => error,
  )
}

describe('before it sends anything, the client rejects', () => {
  test.each(['', 'postern_', `${key}0`, key.slice(0, -1), `${key}\r\nx: y`, `ApiKey ${key}`])(
    'an invalid key (%#) without showing it',
    (wrong) => {
      const failure = (): unknown => createPosternClient({ baseUrl: origin, key: wrong })
      expect(failure).toThrow('key must be a whole Postern API key')
      expect(failure).not.toThrow(/k3Y/)
    },
  )

  test.each([
    '',
    'postern.example',
    'ftp://postern.example',
    'https://postern.example/api/v1',
    'https://postern.example/postern?tenant=a',
    'https://u:p@postern.example',
  ])('the base URL %j', (baseUrl) => {
    expect(() => createPosternClient({ baseUrl, key })).toThrow('baseUrl must be an origin')
  })

  test.each(['..', '.', ''])('the address %j, which would be another path', async (address) => {
    const failure = new TypeError('the address of a resource must be an id, `ref:…` or `ext:…`')
    expect(await failureOf(client.findings.get(address))).toEqual(failure)
    expect(seen).toEqual([])
    await client.findings.get('...')
    expect(seen).toMatchObject([{ url: '/api/v1/findings/...' }])
  })

  test('an empty list as a filter, because the API would return everything', async () => {
    const { findings } = createPosternClient({ baseUrl: origin, key })
    const failure = new TypeError('entity_id is an empty list, which matches nothing: leave it out to get everything')
    expect(() => findings.list({ entity_id: [] })).toThrow(failure)
    expect(await failureOf(findings.summary({ entity_id: [] }))).toEqual(failure)
  })
})

describe('the key', () => {
  test('is in the Authorization header of every request and never in a URL', async () => {
    await client.findings.get('ref:F-2026-0042')
    await client.whoami()
    expect(seen.map(({ authorization }) => authorization)).toEqual([`ApiKey ${key}`, `ApiKey ${key}`])
    expect(seen.map(({ url }) => url)).toEqual(['/api/v1/findings/ref:F-2026-0042', '/api/v1/whoami'])
  })

  test('is hidden when the client or a list is printed', () => {
    expect(everythingOf([client, client.findings.list()])).not.toContain('k3Y')
  })

  test('is not in errors after a rejection, a broken response or a failed connection', async () => {
    answer = (request, response) => {
      if (request.url?.endsWith('whoami') === true) response.destroy()
      else response.writeHead(401, { 'content-type': 'text/plain' }).end(request.headers.authorization)
    }
    const unreachable = createPosternClient({ baseUrl: 'http://127.0.0.1:1', key, retries: 0 })
    const failures = [client.findings.get('x'), client.whoami(), unreachable.whoami()].map(failureOf)
    for (const failure of await Promise.all(failures)) expect(everythingOf(failure)).not.toContain('k3Y')
  })

  test('is not sent to the target of a redirect', async () => {
    const elsewhere = createServer((request, response) => {
      seen.push({ method: request.method, url: request.url, authorization: request.headers.authorization })
      response.end('{}')
    })
    const target = await listen(elsewhere)
    answer = (_request, response) => response.writeHead(307, { location: `${target}/stolen` }).end()
    const failure = await failureOf(client.whoami())
    elsewhere.close()
    expect(seen.map(({ url }) => url)).toEqual(['/api/v1/whoami'])
    expect(failure).toMatchObject({ code: 'unknown', status: 307 })
  })

  test('is not sent to a next page on another origin', async () => {
    answer = (_request, response) => {
      response.setHeader('link', '<http://127.0.0.1:1/api/v1/findings?cursor=x>; rel="next"')
      response.end('[{"id":"1"}]')
    }
    const failure = await failureOf(collect(client.findings.list()))
    expect(String(failure)).toContain('another origin')
    expect(seen).toHaveLength(1)
  })
})

describe('an error response', () => {
  test('is thrown with its problem document', async () => {
    const problem = {
      type: '/problems/too-many-requests',
      title: 'Too many requests',
      status: 429,
      detail: 'Try again in 7 seconds.',
      code: 'too_many_requests',
      instance: 'req-1',
    }
    answer = (_request, response) => {
      response.writeHead(429, { 'content-type': 'application/problem+json', 'retry-after': '7' })
      response.end(JSON.stringify(problem))
    }
    const failure = await failureOf(client.whoami())
    expect(failure).toBeInstanceOf(PosternProblem)
    expect(failure).toMatchObject({
      message: '429 too_many_requests: Try again in 7 seconds.',
      status: 429,
      code: 'too_many_requests',
      requestId: 'req-1',
      retryAfterSeconds: 7,
      problem,
    })
  })

  test.each([
    ['text/html', '<h1>Bad gateway</h1>'],
    ['application/problem+json', '{"status":'],
    ['application/problem+json', '{"status":"502"}'],
  ])('without a problem document (%s %s) is thrown with the code unknown', async (type, text) => {
    answer = (_request, response) => response.writeHead(502, { 'content-type': type }).end(text)
    expect(await failureOf(client.whoami())).toMatchObject({ status: 502, code: 'unknown' })
  })
})

describe('a list', () => {
  test('requests pages as the loop needs them', async () => {
    answer = ({ url }, response) => {
      const page = Number(new URL(url ?? '', origin).searchParams.get('cursor') ?? '1')
      const links = [`</first>; rel="first"`, `</api/v1/findings?cursor=${page + 1}>; title="a, b"; rel="last next"`]
      if (page < 3) response.setHeader('link', links.join(', '))
      response.end(JSON.stringify([{ id: `${page}a` }, { id: `${page}b` }]))
    }
    const ids: string[] = []
    for await (const { id } of client.findings.list({ severity: ['high', 'critical'], limit: 2 })) {
      ids.push(id)
      if (id === '2a') break
    }
    expect(ids).toEqual(['1a', '1b', '2a'])
    expect(seen.map(({ url }) => url)).toEqual([
      '/api/v1/findings?severity=high&severity=critical&limit=2',
      '/api/v1/findings?cursor=2',
    ])
    const pages = await collect(client.findings.list().pages())
    expect(pages.map((page) => page.length)).toEqual([2, 2, 2])
  })

  test('continues after an empty page, which the filtered remediation log can have', async () => {
    answer = (request, response) => {
      const page = Number(new URL(request.url ?? '', origin).searchParams.get('cursor') ?? 0)
      if (page < 3) response.setHeader('link', `</api/v1/remediation-log?cursor=${page + 1}>; rel="next"`)
      response.end(JSON.stringify(page === 2 ? [{ position: 1_500_000 }] : []))
    }
    const log = client.remediationLog.list({ kind: ['escalation'] })
    expect(await log.all()).toEqual([{ position: 1_500_000 }])
    expect((await collect(log.pages())).map((page) => page.length)).toEqual([0, 0, 1, 0])
  })

  test.each(['<x>; rel="nextish"', '<x>; rel="prev"', '<x>', 'next'])('ends without a next link: %s', async (link) => {
    answer = (_request, response) => response.setHeader('link', link).end('[]')
    expect(await collect(client.entities.list())).toEqual([])
    expect(seen).toHaveLength(1)
  })
})

/** A feed whose 500 changes the key cannot read; each page skips 100. */
function hidden(_request: IncomingMessage, response: ServerResponse): void {
  const asked = new URL(seen.at(-1)?.url ?? '', origin).searchParams.get('since')
  const next = asked === 'now' ? 500 : Math.min(500, Number(asked) + 100)
  response.setHeader('postern-next-since', String(next)).end('[]')
}

describe('below a base URL with a path', () => {
  test.each([
    ['names the path', '/postern/api/v1'],
    ['does not name the path', '/api/v1'],
    ['names another path', '/elsewhere/api/v1'],
  ])('every request stays below it, even after a response whose link %s', async (_which, linked) => {
    const answers = [
      { link: `<${linked}/findings?cursor=2>; rel="next"`, text: '[{"id":"1"}]' },
      { link: '', text: '[{"id":"2"}]' },
      { link: '', text: '[]' },
    ]
    answer = (_request, response) => {
      const { link, text } = answers[seen.length - 1] ?? expect.unreachable('no further request was expected')
      response.setHeader('link', link)
      response.setHeader('postern-next-since', '7')
      response.end(text)
    }
    const below = createPosternClient({ baseUrl: `${origin}/postern/`, key, retries: 0 })
    expect(await collect(below.findings.list())).toEqual([{ id: '1' }, { id: '2' }])
    expect(await below.changes.read()).toEqual({ changes: [], next: '7' })
    expect(seen.map(({ url }) => url)).toEqual([
      '/postern/api/v1/findings',
      '/postern/api/v1/findings?cursor=2',
      '/postern/api/v1/changes',
    ])
  })

  test('a resumable upload stays below it', async () => {
    answer = (request, response) => {
      request.resume()
      request.on('end', () => {
        const isMade = request.method === 'POST'
        const headers = isMade
          ? { location: '/postern/api/v1/evidence/uploads/u1' }
          : { 'upload-offset': '4', 'postern-receipt': 'e30.e30.e30' }
        response.writeHead(isMade ? 201 : 204, headers).end()
      })
    }
    const below = createPosternClient({ baseUrl: `${origin}/postern`, key, retries: 0 })
    await below.evidence.uploadResumably({ fileName: 'a.txt', content: new Blob(['text']) })
    const path = '/postern/api/v1/evidence/uploads'
    expect([...new Set(seen.map(({ url }) => url))]).toEqual([path, `${path}/u1`])
  })
})

describe('the feed of changes', () => {
  test('returns its next position even if the key cannot read any of the changes', async () => {
    answer = hidden
    expect(await collect(client.changes.catchUp({ since: '100' }))).toEqual([{ changes: [], next: '500' }])
    expect(await collect(client.changes.catchUp({ since: 'now' }))).toEqual([{ changes: [], next: '500' }])
    expect(await collect(client.changes.catchUp({ since: '500' }))).toEqual([])
  })
})
