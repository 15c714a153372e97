import { generateKey } from '@postern/api-key'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { type TestGateway, startTestGateway } from './gateway.ts'

let gateway: TestGateway
const { value, hash } = generateKey()
const id = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'

beforeAll(async () => {
  gateway = await startTestGateway()
  gateway.keys.records.set(hash, keyRecord({ hash, scopes: ['*'], expiresAt: Date.now() + 86_400_000 }))
  await gateway.untilReady()
})
afterAll(async () => await gateway.close())

const request = (line: string, headers: string): string =>
  `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: ApiKey ${value}\r\n${headers}`
const last = request('GET /api/v1/findings?limit=7', 'Connection: close\r\n\r\n')
const json = 'Content-Type: application/json\r\n'

describe('a body without content is no body', () => {
  test.each([
    ['GET, in chunks', 'GET /api/v1/findings', 'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['GET, in chunks, with a type', 'GET /api/v1/findings', `${json}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['GET, in chunks, with a trailer', 'GET /api/v1/findings', 'Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: b\r\n\r\n'],
    [
      'GET of what needs no key, in chunks',
      'GET /.well-known/jwks.json',
      'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['DELETE, in chunks', `DELETE /api/v1/evidence/uploads/${id}`, 'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['POST, in chunks', 'POST /api/v1/findings', `${json}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['GET, of length 0 and with a type', 'GET /api/v1/findings', `${json}Content-Length: 0\r\n\r\n`],
    ['POST, of length 0 and with a type', 'POST /api/v1/findings', `${json}Content-Length: 0\r\n\r\n`],
  ])('%s', async (_what, line, headers) => {
    gateway.forwarded.length = 0
    const answer = await gateway.raw(request(line, headers) + last)
    expect(answer.match(/HTTP\/1\.1 200 /g), answer).toHaveLength(2)
    expect(gateway.forwarded.map(({ method, target }) => `${method} ${target}`)).toEqual([
      line,
      'GET /api/v1/findings?limit=7',
    ])
    expect(gateway.forwarded[0]).toMatchObject({ body: '' })
    expect(gateway.forwarded[0]?.headers).not.toHaveProperty('transfer-encoding')
    expect(gateway.forwarded[0]?.headers).not.toHaveProperty('content-type')
  })

  test('also from a client that expects 100 Continue', async () => {
    gateway.forwarded.length = 0
    const headers = `${json}Expect: 100-continue\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`
    expect(await gateway.raw(request('POST /api/v1/findings', headers))).toMatch(/^HTTP\/1\.1 200 /)
    expect(gateway.forwarded).toMatchObject([{ method: 'POST', body: '' }])
  })

  test('a body with content is rejected if the operation has none', async () => {
    for (const body of ['Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n', 'Content-Length: 1\r\n\r\nx']) {
      expect(await gateway.raw(request('GET /api/v1/findings', body) + last)).toMatch(/^HTTP\/1\.1 400 /)
    }
  })

  test('a chunked body whose content arrives late is forwarded completely', async () => {
    gateway.forwarded.length = 0
    const bytes = `${json}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`
    expect(await gateway.raw(request('POST /api/v1/findings', bytes))).toMatch(/^HTTP\/1\.1 200 /)
    expect(gateway.forwarded).toMatchObject([{ body: '{}', verification: { ok: true } }])
  })
})
