import { once } from 'node:events'
import { connect } from 'node:net'
import { generateKey } from '@postern/api-key'
import { parseAssertion } from '@postern/signed-context'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { type TestGateway, startTestGateway } from './gateway.ts'

let gateway: TestGateway
const { value, hash } = generateKey()
const auth = `Authorization: ApiKey ${value}\r\n`
const tenantId = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'

function get(path: string, headers = ''): string {
  return `GET ${path} HTTP/1.1\r\nHost: a\r\n${auth}Connection: close\r\n${headers}\r\n`
}

function post(headers: string, body: string): string {
  return `POST /api/v1/findings HTTP/1.1\r\nHost: a\r\n${auth}Connection: close\r\nContent-Type: application/json\r\n${headers}\r\n${body}`
}

function keepAlive(request: string): string {
  return request.replace('Connection: close\r\n', '')
}

function ownRecord() {
  const record = keyRecord({ hash, tenantId, scopes: ['*'], keyLimit: 100_000, tenantLimit: 100_000 })
  return { ...record, expiresAt: Date.now() + 86_400_000 }
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect({ port, host: '127.0.0.1' })
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** How many requests were refused with this code. */
async function refusalsOf(code: string): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/internal/metrics`)).text()
  return Number(
    new RegExp(`^postern_gateway_refusals_total\\{code="${code}"[^}]*\\} (\\d+)$`, 'm').exec(metrics)?.[1] ?? 0,
  )
}

function statusOf(answer: string): number {
  return Number(answer.slice(9, 12))
}

beforeAll(async () => {
  gateway = await startTestGateway()
  gateway.keys.records.set(hash, ownRecord())
  await gateway.untilReady()
})

afterAll(async () => {
  await gateway.close()
})

beforeEach(() => {
  gateway.forwarded.length = 0
})

test.each([
  ['bad_request', get('/api/v1/findings', 'Content-Length: 2\r\n') + '{}'],
  ['bad_request', get('/api/v1/whoami?nothing=1')],
  ['content_too_large', post('Content-Length: 9999999\r\n', '')],
  ['unsupported_media_type', post('Content-Encoding: gzip\r\nContent-Length: 2\r\n', '{}')],
  ['not_acceptable', get('/api/v1/whoami', 'Accept: text/csv\r\n')],
])('a refusal with %s is counted', async (code, bytes) => {
  const before = await refusalsOf(code)
  await gateway.raw(bytes)
  expect(await refusalsOf(code)).toBe(before + 1)
})

describe('is refused, and never reaches a service', () => {
  test.each([
    ['a second Authorization', get('/api/v1/findings', 'authorization: ApiKey x\r\n'), 400],
    ['a second Host', get('/api/v1/findings', 'host: b\r\n'), 400],
    ['no Host', `GET /api/v1/findings HTTP/1.1\r\n${auth}Connection: close\r\n\r\n`, 400],
    ['a second Content-Type', post('content-type: text/plain\r\nContent-Length: 2\r\n', '{}'), 400],
    ['an absolute target', get('http://a/api/v1/findings'), 400],
    ['an encoded dot segment', get('/api/v1/findings/%2e%2e/api-keys'), 400],
    ['an empty segment', get('//api/v1/findings'), 400],
    ['a backslash', get('/api/v1/findings/x\\..\\y'), 400],
    ['a long URL', get(`/api/v1/findings?cursor=${'a'.repeat(8200)}`), 414],
    ['a large header section', get('/api/v1/findings', `x-large: ${'a'.repeat(17_000)}\r\n`), 431],
    [
      'Content-Length and Transfer-Encoding',
      post('Content-Length: 2\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
      400,
    ],
    ['two lengths', post('Content-Length: 2\r\nContent-Length: 2\r\n', '{}'), 400],
    ['a signed length', post('Content-Length: +2\r\n', '{}'), 400],
    ['a body where none belongs', get('/api/v1/findings', 'Content-Length: 2\r\n') + '{}', 400],
    ['a body that is too long', post('Content-Length: 9999999\r\n', ''), 413],
    ['a content coding', post('Content-Encoding: gzip\r\nContent-Length: 2\r\n', '{}'), 415],
    ['a route that is not in the table', get('/internal/v1/leases'), 404],
    ['a method that the resource lacks', get('/api/v1/findings').replace('GET', 'DELETE'), 405],
    ['a header value that cannot be signed', post('If-Match: "\u00e9"\r\nContent-Length: 2\r\n', '{}'), 400],
  ])('%s', async (_what, bytes, status) => {
    const answer = await gateway.raw(bytes)
    expect(statusOf(answer)).toBe(status)
    expect(answer).toContain('application/problem+json')
    expect(gateway.forwarded).toEqual([])
  })

  test.each([
    ['a coding under the chunks', post('Transfer-Encoding: gzip, chunked\r\n', '2\r\n{}\r\n0\r\n\r\n')],
    [
      'chunks in HTTP/1.0',
      post('Transfer-Encoding: chunked\r\n', '2\r\n{}\r\n0\r\n\r\n').replace('HTTP/1.1', 'HTTP/1.0'),
    ],
  ])('%s: the framing could be read in two ways', async (_what, bytes) => {
    const answer = await gateway.raw(bytes)
    expect(statusOf(answer)).toBe(400)
    expect(answer).toContain('malformed_http')
    expect(gateway.forwarded).toEqual([])
  })

  test.each([
    [
      'a URL with text that is not ASCII',
      'GET /api/v1/findings?q=Prüfung HTTP/1.1\r\nHost: a\r\n\r\n',
      400,
      /Percent-encode/,
    ],
    ['a URL with a space', 'GET /api/v1/findings?q=a b HTTP/1.1\r\nHost: a\r\n\r\n', 400, /%20/],
    ['a method in small letters', 'get /api/v1/findings HTTP/1.1\r\nHost: a\r\n\r\n', 400, /in capitals/],
    ['a header without a colon', 'GET / HTTP/1.1\r\nHost: a\r\nNothing\r\n\r\n', 400, /headers/],
    ['headers without end', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431, /shorter/],
  ])(
    '%s is not a request: the response says what to fix, and the log and a metric show it',
    async (_what, bytes, status, detail) => {
      const code = status === 431 ? 'header_fields_too_large' : 'malformed_http'
      const before = await refusalsOf(code)
      const [head = '', body = ''] = (await gateway.raw(bytes)).split('\r\n\r\n')
      const told = JSON.parse(body)
      expect([statusOf(head), told.code]).toEqual([status, code])
      expect(told.detail).toMatch(detail)
      expect(await refusalsOf(code)).toBe(before + 1)
      const lines = gateway.log.map((line) => JSON.parse(line)).filter(({ request_id: id }) => id === told.instance)
      expect(lines).toMatchObject([{ event: 'request_unreadable', status, code, address: '127.0.0.1' }])
      expect(JSON.stringify(lines)).not.toContain('findings')
    },
  )

  test.each([
    [
      'an expectation that is not 100-continue',
      post('Expect: a-miracle\r\nContent-Length: 2\r\n', '{}'),
      417,
      'expectation_failed',
    ],
    [
      'such an expectation over a doubtful framing',
      post('Expect: a-miracle\r\nTransfer-Encoding: gzip, chunked\r\n', '2\r\n{}\r\n0\r\n\r\n'),
      400,
      'malformed_http',
    ],
    [
      'such an expectation beside a header that is there twice',
      post('Expect: a-miracle\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n', '{}'),
      400,
      'duplicate_header',
    ],
  ])('%s, with what follows it, and it is counted', async (_what, bytes, status, code) => {
    const hidden = get('/api/v1/nothing', 'X-Request-Id: hidden-behind-what-is-expected\r\n')
    const before = await refusalsOf(code)
    const answer = await gateway.raw(keepAlive(bytes) + hidden)
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [^]*\r\nconnection: close\r\n[^]*${code}`, 'i'))
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`])
    expect(await refusalsOf(code)).toBe(before + 1)
    expect(gateway.log.join('')).not.toContain('hidden-behind-what-is-expected')
    expect(gateway.forwarded).toEqual([])
  })

  test('what follows a request whose answer has ended the connection, its body being far too long', async () => {
    const long = keepAlive(post(`Content-Length: ${2 ** 22}\r\n`, 'a'.repeat(2 ** 22)))
    const client = connect({ port: gateway.port, host: '127.0.0.1', allowHalfOpen: true })
    client.end(long + get('/api/v1/nothing', 'X-Request-Id: hidden-behind-it\r\n'))
    let answer = ''
    client.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')))
    await once(client, 'close')
    expect(answer).toMatch(/^HTTP\/1\.1 413 [^]*\r\nconnection: close\r\n[^]*content_too_large/)
    expect(answer.match(/HTTP\/1/g)).toHaveLength(1)
    // The control: it would have been reported by now.
    await gateway.raw(get('/api/v1/nothing', 'X-Request-Id: not-hidden\r\n'))
    expect(gateway.log.join('')).toContain('not-hidden')
    expect(gateway.log.join('')).not.toContain('hidden-behind-it')
  })

  test('a request behind a waiting response that ends the connection', async () => {
    const client = connect({ port: gateway.port, host: '127.0.0.1' })
    let answers = ''
    client.on('data', (chunk: Buffer) => (answers += chunk.toString('latin1')))
    const slow = get('/api/v1/findings').replace(value, generateKey().value)
    const long = post(`Content-Length: ${2 ** 22}\r\n`, 'a'.repeat(2 ** 22))
    const hidden = post('Content-Length: 2\r\nX-Request-Id: hidden-behind-both\r\n', '{}')
    gateway.keys.mode = 'frozen'
    const { held } = gateway.keys
    client.write([slow, long, hidden].map(keepAlive).join(''))
    // Its look-up stays without an answer; the lease is renewed again, so that the key of the next one is known.
    await expect.poll(() => gateway.keys.held).toBe(held + 1)
    gateway.keys.mode = 'well'
    await once(client, 'close')
    expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 503', 'HTTP/1.1 413'])
    await gateway.raw(post('Content-Length: 2\r\nX-Request-Id: not-hidden\r\n', '{}'))
    expect(gateway.forwarded.map(({ headers }) => headers['x-request-id'])).toEqual(['not-hidden'])
  })

  test('a request behind a waiting response to an announced body that was not requested', async () => {
    const slow = get('/api/v1/findings').replace(value, generateKey().value)
    const refused = post('Expect: 100-continue\r\nContent-Length: 2\r\n', '{}').replace('/api', '//api')
    const hidden = post('Content-Length: 2\r\nX-Request-Id: hidden-behind-both\r\n', '{}')
    gateway.keys.mode = 'frozen'
    const answers = await gateway.raw([slow, refused].map(keepAlive).join('') + hidden)
    gateway.keys.mode = 'well'
    expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 503', 'HTTP/1.1 400'])
    await gateway.raw(post('Content-Length: 2\r\nX-Request-Id: not-hidden\r\n', '{}'))
    expect(gateway.forwarded.map(({ headers }) => headers['x-request-id'])).toEqual(['not-hidden'])
  })

  test('a request behind a refusal on a connection that was busy when the gateway began to close', async () => {
    const ending = await startTestGateway()
    ending.keys.records.set(hash, ownRecord())
    await ending.untilReady()
    ending.keys.mode = 'frozen'
    const client = connect({ port: ending.port, host: '127.0.0.1' })
    let answers = ''
    client.on('data', (chunk: Buffer) => (answers += chunk.toString('latin1')))
    client.write(keepAlive(get('/api/v1/findings').replace(value, generateKey().value)))
    await expect.poll(() => ending.keys.held).toBe(1)
    const closing = ending.close()
    await expect.poll(async () => await isListening(ending.port)).toBe(false)
    const hidden = post('Content-Length: 2\r\nX-Request-Id: hidden-behind-it\r\n', '{}')
    client.write(keepAlive(get('//api/v1/findings')) + hidden)
    await once(client, 'close')
    await closing
    expect(answers).toMatch(/^HTTP\/1\.1 503 /)
    expect(ending.forwarded).toEqual([])
  })

  test('more of an unwanted body than is read before the connection is cut', async () => {
    const client = connect({ port: gateway.port, host: '127.0.0.1' })
    let answer = ''
    client.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')))
    client.on('error', () => undefined)
    const closed = once(client, 'close').catch(() => undefined)
    client.write('GET /docs HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\nTransfer-Encoding: chunked\r\n\r\n')
    const mebi = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(2 ** 20), Buffer.from('\r\n')])
    let sent = 0
    while (client.writable && sent < 256) {
      sent += 1
      const drained = new Promise((resolve) => client.once('drain', resolve))
      if (!client.write(mebi)) await Promise.race([drained, closed])
    }
    client.destroy()
    await closed
    expect(sent).toBeLessThan(128)
    expect(answer).toMatch(/^HTTP\/1\.1 304 [^]*\r\napi-version: [^]*\r\ncache-control: public, max-age=60\r\n/)
  })

  test('a request on a connection that was reset before it was read, because its address is unknown', async () => {
    await gateway.raw(get('/api/v1/findings'))
    gateway.forwarded.length = 0
    const count = 20
    for (let times = 0; times < count; times += 1) {
      const client = connect({ port: gateway.port, host: '127.0.0.1' })
      await once(client, 'connect')
      client.write(post('Content-Length: 2\r\nX-Request-Id: from-nowhere\r\n', '{}'))
      client.resetAndDestroy()
    }
    await gateway.raw(post('Content-Length: 2\r\nX-Request-Id: from-somewhere\r\n', '{}'))
    expect(gateway.forwarded.map(({ headers }) => headers['x-request-id'])).toEqual(['from-somewhere'])
    expect(gateway.log.filter((line) => line.includes('"status":0') && line.includes('from-nowhere'))).not.toEqual([])
  })

  test('CONNECT: the connection ends', async () => {
    expect(await gateway.raw('CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n')).toBe('')
  })

  test('a 405 response names the supported methods', async () => {
    expect(await gateway.raw(get('/api/v1/whoami').replace('GET', 'PUT'))).toMatch(/\r\nallow: GET, HEAD\r\n/)
  })
})

describe('what is let through', () => {
  test('arrives under a valid signature, for the key’s own tenant, whatever the client claims', async () => {
    const forged = [
      'X-Tenant-Id: other',
      'postern-context: tenant="other"',
      'Postern_Assertion: v1.forged',
      'Signature: postern=:AAAA:',
      'X-Request-Id: short',
      'Connection: postern-context, signature',
    ]
    const bytes = get('/api/v1/findings?limit=5', `${forged.join('\r\n')}\r\n`).replace('Connection: close\r\n', '')
    const answer = await gateway.raw(bytes.replace('Connection: postern', 'Connection: close, postern'))
    expect(statusOf(answer)).toBe(200)
    const [arrived] = gateway.forwarded
    expect(arrived?.verification).toMatchObject({ ok: true, context: { tenantId, kind: 'api_key' } })
    expect(arrived?.target).toBe('/api/v1/findings?limit=5')
    expect(arrived?.headers).not.toHaveProperty('authorization')
    expect(arrived?.headers).not.toHaveProperty('x-tenant-id')
    expect(JSON.stringify(arrived?.headers)).not.toMatch(/forged|other|postern_[0-9A-Za-z]/)
  })

  test.each([
    ['with its length', 'Content-Length: 2\r\n', '{}', '{}'],
    ['with leading zeros in its length', 'Content-Length: 002\r\n', '{}', '{}'],
    ['in chunks', 'Transfer-Encoding: Chunked\r\n', '1\r\n{\r\n1\r\n}\r\n0\r\n\r\n', '{}'],
    [
      'with trailers, which end here',
      'Transfer-Encoding: chunked\r\nTrailer: x-tenant\r\n',
      '2\r\n{}\r\n0\r\nx-tenant: b\r\n\r\n',
      '{}',
    ],
    ['of no bytes', 'Content-Length: 0\r\n', '', ''],
    ['that is not there at all', '', '', ''],
  ])('a body %s arrives whole and signed', async (_what, headers, body, expected) => {
    expect(statusOf(await gateway.raw(post(headers, body)))).toBe(200)
    expect(gateway.forwarded).toMatchObject([{ method: 'POST', body: expected, verification: { ok: true } }])
  })

  test('an upload is vouched for longer than any other request', async () => {
    await gateway.raw(get('/api/v1/findings'))
    const file = 'Content-Type: text/csv\r\nContent-Length: 2\r\n'
    await gateway.raw(
      `POST /api/v1/evidence?file_name=a.csv HTTP/1.1\r\nHost: a\r\n${auth}Connection: close\r\n${file}\r\na,`,
    )
    const lives = gateway.forwarded.map(({ headers }) => {
      const claim = parseAssertion(String(headers['postern-assertion']))
      return (claim?.expiresAt ?? 0) - Date.now() / 1000
    })
    expect(lives).toHaveLength(2)
    expect(lives[0]).toBeLessThanOrEqual(60)
    expect(lives[1]).toBeLessThanOrEqual(270)
    expect(lives[1]).toBeGreaterThan(240)
  })

  test('HEAD is forwarded as HEAD and answered without a body', async () => {
    const answer = await gateway.raw(get('/api/v1/findings').replace('GET', 'HEAD'))
    expect(statusOf(answer)).toBe(200)
    expect(answer.endsWith('\r\n\r\n')).toBe(true)
    expect(gateway.forwarded).toMatchObject([{ method: 'HEAD', verification: { ok: true } }])
  })

  test('HTTP/1.0 is answered, and the connection ends', async () => {
    expect(statusOf(await gateway.raw(`GET /api/v1/findings HTTP/1.0\r\n${auth}\r\n`))).toBe(200)
  })

  test('an upgrade is not granted, and the request is served unchanged', async () => {
    const bytes = get('/api/v1/findings', 'Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n')
    const answer = await gateway.raw(bytes.replace('Connection: close', 'Connection: close, Upgrade, HTTP2-Settings'))
    expect(statusOf(answer)).toBe(200)
    expect(gateway.forwarded[0]?.headers).not.toHaveProperty('upgrade')
  })

  test('more headers than Node’s default all arrive, including the length of the body', async () => {
    const many = 'a:\r\n'.repeat(2100)
    expect(statusOf(await gateway.raw(post(`${many}Content-Length: 2\r\n`, '{}')))).toBe(200)
    expect(gateway.forwarded).toMatchObject([{ body: '{}', verification: { ok: true } }])
  })
})

test('no log line contains a key, even one that was sent in a wrong place', async () => {
  await gateway.raw(get(`/api/v1/findings?key=${value}`))
  await gateway.raw(get('/api/v1/findings', `x-api-key: ${value}\r\n`))
  await gateway.raw(get(`/${value}`))
  expect(gateway.log.join('')).not.toContain(value.slice(8, 40))
})
