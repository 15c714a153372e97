import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { once } from 'node:events'
import { type ServerResponse, createServer as createPlainServer, request as rawRequest } from 'node:http'
import { createServer } from 'node:https'
import type { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeTestAuthority } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openLimits } from '../src/api/open-requests.ts'
import { startConsole } from '../src/service.ts'
import { type ConsoleSystem, codeOf, ownPage, startConsoleSystem } from './support.ts'

let system: ConsoleSystem
let headers: Record<string, string>

beforeAll(async () => {
  system = await startConsoleSystem()
  headers = await headersOf()
})
afterAll(async () => await system.stop())

/** The headers of a page of the console, of a person of the development provider. */
async function headersOf(personId?: string): Promise<Record<string, string>> {
  const browser = await system.signedIn(personId)
  const cookie = [...browser.cookies].map(([name, value]) => `${name.split(' ')[1]}=${value}`).join('; ')
  return { ...(await ownPage(browser, system.url)), cookie, host: new URL(system.url).host }
}

/** Starts another console for the same sessions in front of this gateway, and gives its URL. */
async function consoleBefore(gatewayUrl: string): Promise<string> {
  const env = { ...system.env, POSTERN_PORT: '0', POSTERN_GATEWAY_URL: gatewayUrl }
  const running = await startConsole(env, { writeLog: () => undefined })
  onTestFinished(async () => await running.close())
  // The service answers before it has reached Redis.
  const isSignedIn = async () => (await send(`${running.url}/auth/session`)).status === 200
  await expect.poll(isSignedIn, { timeout: 60_000 }).toBe(true)
  return running.url
}

async function listen(server: Server & { closeAllConnections(): void }): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

interface RawAnswer {
  readonly status: number
  readonly text: string
}

/** Sends a request with any headers, which `fetch` would refuse. */
async function send(
  url: string,
  options: { readonly method?: string; readonly headers?: Record<string, string>; readonly body?: string } = {},
): Promise<RawAnswer> {
  const sent = rawRequest(url, { method: options.method ?? 'GET', headers: { ...headers, ...options.headers } })
  sent.end(options.body)
  const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>()
  sent.on('error', reject)
  sent.on('response', (answer) => {
    let text = ''
    answer.setEncoding('utf8')
    answer.on('data', (chunk: string) => {
      text += chunk
    })
    answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }))
    answer.on('error', reject)
  })
  return await promise
}

describe('the proxy to the gateway', () => {
  test('sends a request once, even after 503 with Retry-After or a lost connection', async () => {
    let arrived = 0
    const port = await listen(
      createPlainServer((request, response) => {
        arrived += 1
        if (request.url === '/api/v1/lost') request.socket.destroy()
        else response.writeHead(503, { 'retry-after': '0', 'content-type': 'application/json' }).end('{}')
      }),
    )
    const url = await consoleBefore(`http://127.0.0.1:${port}`)
    expect((await send(`${url}/api/v1/findings`)).status).toBe(503)
    expect(arrived).toBe(1)
    const lost = await send(`${url}/api/v1/lost`)
    expect([lost.status, codeOf(lost.text)]).toEqual([502, 'bad_gateway'])
    expect(arrived).toBe(2)
  })

  test('verifies the certificate of the gateway', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'postern-console-'))
    onTestFinished(async () => await rm(folder, { recursive: true }))
    const authority = await makeTestAuthority(folder)
    const files = await authority.issue('localhost')
    const [cert, key] = await Promise.all([readFile(files.certificate), readFile(files.key)])
    let arrived = 0
    const port = await listen(
      createServer({ cert, key }, (_request, response) => {
        arrived += 1
        response.end('{}')
      }),
    )
    const url = await consoleBefore(`https://localhost:${port}`)
    const answer = await send(`${url}/api/v1/findings`)
    expect([answer.status, codeOf(answer.text)]).toEqual([502, 'bad_gateway'])
    expect(arrived).toBe(0)
  })

  test('rejects a body beyond the largest limit before it arrives', async () => {
    const before = system.gateway.requests.length
    const sent = rawRequest(`${system.url}/api/v1/evidence`, {
      method: 'POST',
      headers: { ...headers, 'content-length': String(Number.MAX_SAFE_INTEGER) },
    })
    const { promise, resolve } = Promise.withResolvers<number | undefined>()
    sent.on('response', (answer) => {
      answer.resume()
      resolve(answer.statusCode)
    })
    sent.on('error', () => undefined)
    sent.flushHeaders()
    expect(await promise).toBe(413)
    sent.destroy()
    expect(system.gateway.requests.length).toBe(before)
  })

  test('forwards bodies of every type byte for byte', async () => {
    for (const [type, body] of [
      ['text/plain', 'a text\r\n'],
      ['application/json', '{ "b":1 , "a":2 }'],
      ['application/octet-stream', '\u0000\u0001'],
      ['multipart/form-data; boundary=x', '--x--\r\n'],
    ] as const) {
      const own = { 'content-type': type, 'content-length': String(Buffer.byteLength(body)) }
      expect((await send(`${system.url}/api/v1/things`, { method: 'POST', headers: own, body })).status).toBe(201)
      const seen = system.gateway.requests.at(-1)
      expect([seen?.body, seen?.headers['content-type'], seen?.headers['content-length']]).toEqual([
        body,
        type,
        own['content-length'],
      ])
    }
  })

  test('forwards a query byte for byte', async () => {
    const target = '/api/v1/findings?b=2&a=%7B%22x%22%7D&a=1&plus=a+b&empty=&%C3%BC=%20'
    expect((await send(system.url + target)).status).toBe(200)
    expect(system.gateway.requests.at(-1)?.url).toBe(target)
  })

  test('removes hop-by-hop headers, and what Connection names, from requests', async () => {
    const own = { connection: 'close, prefer', prefer: 'return=minimal', te: 'trailers' }
    expect((await send(`${system.url}/api/v1/findings`, { headers: own })).status).toBe(200)
    const seen = system.gateway.requests.at(-1)?.headers ?? {}
    expect([seen['prefer'], seen['te']]).toEqual([undefined, undefined])
  })

  test('says of a long query that it is long', async () => {
    const answer = await send(`${system.url}/api/v1/findings?q=${'a'.repeat(9000)}`)
    expect([answer.status, codeOf(answer.text)]).toEqual([414, 'uri_too_long'])
  })

  test('refuses two dots beside a slash with a problem', async () => {
    for (const path of ['entities/ext:a../children', 'entities/..b']) {
      const answer = await send(`${system.url}/api/v1/${path}`)
      expect([answer.status, codeOf(answer.text)]).toEqual([400, 'non_canonical_path'])
    }
  })
})

test('a person whose answers do not come leaves connections to others, of the same tenant and of another', async () => {
  const held: ServerResponse[] = []
  const gateway = createPlainServer((request, response) => {
    if (request.url === '/api/v1/slow') held.push(response)
    else response.end('{}')
  })
  const url = await consoleBefore(`http://127.0.0.1:${await listen(gateway)}`)
  const others = await Promise.all(['harbourline-auditor', 'korvex-admin'].map(async (id) => await headersOf(id)))
  const open = openLimits.person + 8
  const slow = Array.from({ length: open }, async () => (await send(`${url}/api/v1/slow`)).status)
  await expect.poll(() => held.length, { timeout: 60_000 }).toBe(openLimits.person)
  expect(await Promise.race(slow)).toBe(429)
  expect(await send(`${url}/api/v1/findings`)).toMatchObject({ status: 429 })
  for (const own of others) expect((await send(`${url}/api/v1/findings`, { headers: own })).status).toBe(200)
  for (const response of held) response.end('{}')
  expect((await Promise.all(slow)).filter((status) => status === 200)).toHaveLength(openLimits.person)
  // Ended requests do not count (control).
  expect((await send(`${url}/api/v1/findings`)).status).toBe(200)
})

test('a read whose client leaves ends at the gateway, and a change that was received does not', async () => {
  const asked: ServerResponse[] = []
  const gateway = createPlainServer((request, response) => {
    if (request.url === '/api/v1/slow') asked.push(response)
    else response.end(String(request.headers['x-open-request']))
  })
  const url = await consoleBefore(`http://127.0.0.1:${await listen(gateway)}`)
  const leave = async (method: string) => {
    const seen = asked.length
    const leaving = rawRequest(`${url}/api/v1/slow`, { method, headers }).on('error', () => undefined)
    leaving.end()
    await expect.poll(() => asked.length, { timeout: 60_000 }).toBe(seen + 1)
    leaving.destroy()
  }
  await leave('POST')
  await leave('GET')
  const [change, read] = asked
  await expect.poll(() => read?.closed, { timeout: 60_000 }).toBe(true)
  expect(change?.closed).toBe(false)
  change?.end('{}')
  // The name of the open request stays within the console.
  expect(await send(`${url}/api/v1/findings`)).toEqual({ status: 200, text: 'undefined' })
})

test('what a person has open is cut when the session ends, and what others have open is not', async () => {
  const held: ServerResponse[] = []
  const gateway = createPlainServer((request, response) => {
    if (request.url !== '/api/v1/slow') return
    response.write('[')
    held.push(response)
  })
  const url = await consoleBefore(`http://127.0.0.1:${await listen(gateway)}`)
  const leaver = await headersOf('harbourline-viewer')
  const cut = send(`${url}/api/v1/slow`, { headers: leaver }).catch((error: unknown) => error)
  const other = send(`${url}/api/v1/slow`)
  await expect.poll(() => held.length, { timeout: 60_000 }).toBe(2)
  expect((await send(`${url}/auth/logout`, { method: 'POST', headers: leaver })).status).toBe(200)
  expect(await cut).toBeInstanceOf(Error)
  for (const response of held) response.end(']')
  expect(await other).toEqual({ status: 200, text: '[]' })
})
