/**
 * @promise Edge: Malformed, unknown and mistyped keys get the same 401, and the time to answer does not tell them apart.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { generateKey, keyChecksum, parseKey } from '@postern/api-key'
import { type Route, routeTable } from '@postern/contracts'
import { operator, startTestStack, type TestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { send } from '../support/http.ts'
import { rankDistance } from '../support/rank-test.ts'
import { sendRaw } from '../support/raw.ts'

let stack: TestStack
let gateway: string
let key: string
let revokedKey: string

beforeAll(async () => {
  stack = await startTestStack({ env: { POSTERN_FAILED_ATTEMPTS: '1000000', POSTERN_PUBLIC_REQUESTS: '1000000' } })
  gateway = stack.gateways[0] ?? ''
  const tenant = await stack.createTenant()
  key = (await stack.createKey(tenant, { scopes: ['read:findings'] })).key
  const revoked = await stack.createKey(tenant, { scopes: ['read:findings'] })
  revokedKey = revoked.key
  const principal = { ...operator, tenantId: tenant.id }
  await stack.operator.call(principal, 'POST', `/api/v1/api-keys/${revoked.id}/revoke`)
})

afterAll(async () => {
  await stack.stop()
})

async function ask(...authorization: readonly string[]) {
  const headers = authorization.map((value) => `Authorization: ${value}\r\n`).join('')
  const bytes = Buffer.from(`GET /api/v1/whoami HTTP/1.1\r\nHost: postern\r\n${headers}\r\n`, 'latin1')
  let answer = await sendRaw(gateway, bytes)
  // On a machine that is busy enough a gateway may be without its lease, and can then know nothing.
  while (answer.statuses[0] === 503) answer = await sendRaw(gateway, bytes)
  const code = /"code":"([a-z_]+)"/.exec(answer.text)?.[1]
  return { status: answer.statuses[0], code, text: answer.text }
}

function withoutIds(text: string): string {
  return text.replaceAll(/x-request-id: .*|date: .*|"instance":"[^"]*"/gi, '')
}

/** Sends a body in a new tenant and checks that nothing was stored. */
async function post(body: unknown, headers: Record<string, string> = {}) {
  const tenant = await stack.createTenant()
  const writer = (await stack.createKey(tenant, { scopes: ['*'] })).key
  const answer = await send(gateway, '/api/v1/findings', { key: writer, method: 'POST', body, headers })
  const list = await send(gateway, '/api/v1/findings', { key: writer })
  expect(list.text).toBe('[]')
  return [answer.status, answer.code]
}

describe('invalid credentials are rejected with 401 before any lookup', () => {
  test('control: a valid key is accepted, with its scheme in any case', async () => {
    for (const scheme of ['ApiKey', 'apikey', 'APIKEY', 'aPiKeY']) {
      expect((await ask(`${scheme} ${key}`)).status, scheme).toBe(200)
    }
  })

  test('no credentials', async () => {
    const { status, code, text } = await ask()
    expect([status, code]).toEqual([401, 'missing_credentials'])
    expect(text).toMatch(/www-authenticate: ApiKey realm="postern"\r\n/i)
  })

  test.each([
    ['only the scheme', () => 'ApiKey'],
    ['nothing after the scheme', () => 'ApiKey '],
    ['two spaces', () => `ApiKey  ${key}`],
    ['bytes after the key', () => `ApiKey ${key} x`],
    ['quotes', () => `ApiKey "${key}"`],
    ['a list', () => `ApiKey ${key},${key}`],
    ['a parameter', () => `ApiKey key=${key}`],
    ['a wrong checksum', () => `ApiKey ${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`],
    ['one character changed', () => `ApiKey ${key.slice(0, 20)}${key[20] === 'a' ? 'b' : 'a'}${key.slice(21)}`],
    ['one character less', () => `ApiKey ${key.slice(0, -1)}`],
    ['another case', () => `ApiKey ${key.toUpperCase()}`],
    ['bytes beyond ASCII', () => `ApiKey ${key.slice(0, -1)}\u00e9`],
    ['eight kilobytes', () => `ApiKey ${'a'.repeat(8192)}`],
    ['a well-formed key that was never made', () => `ApiKey ${generateKey().value}`],
  ])('%s', async (_name, make) => {
    const { status, code, text } = await ask(make())
    expect([status, code], text).toEqual([401, 'invalid_key'])
    expect(text).toMatch(/error="invalid_key"/)
  })

  test('a key with another scheme or without one, and the response says how to send it', async () => {
    for (const value of [
      key,
      `ApiKey\t${key}`,
      `Basic ${Buffer.from(`${key}:`).toString('base64')}`,
      `Token ${key}`,
      `Bearer ${key}`,
    ]) {
      const { status, code, text } = await ask(value)
      expect([status, code], value).toEqual([401, 'invalid_key'])
      expect(text).toContain('Send it as Authorization: ApiKey')
      expect(text).not.toContain(key.slice(8))
    }
  })

  test('another scheme without a key', async () => {
    expect(await ask('Negotiate')).toMatchObject({ status: 401, code: 'missing_credentials' })
  })

  test('a mistyped key and an unknown one get the same bytes', async () => {
    const mistyped = await ask(`ApiKey ${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`)
    const unknown = await ask(`ApiKey ${generateKey().value}`)
    expect(withoutIds(mistyped.text)).toBe(withoutIds(unknown.text))
  })

  test('a key in the query or the body is ignored', async () => {
    const inQuery = await send(gateway, `/api/v1/whoami?api_key=${key}&key=${key}`)
    expect([inQuery.status, inQuery.code]).toEqual([401, 'missing_credentials'])
  })
})

describe('an ambiguous request is rejected with 400', () => {
  test('two Authorization headers, in any order, even if they are equal', async () => {
    const other = generateKey().value
    for (const pair of [
      [key, other],
      [other, key],
      [key, key],
    ]) {
      const { status, code } = await ask(...pair.map((value) => `ApiKey ${value}`))
      expect([status, code]).toEqual([400, 'duplicate_header'])
    }
  })

  test.each([
    ['NUL', `Authorization: ApiKey postern_\u0000\r\n`],
    ['a bare CR', `Authorization: ApiKey postern_\rx\r\n`],
    ['a line folded as in RFC 822', 'Authorization: ApiKey\r\n postern_x\r\n'],
    ['a space before the colon', 'Authorization : ApiKey x\r\n'],
    ['two Host headers', 'Host: elsewhere\r\n'],
    ['two lengths', 'Content-Length: 1\r\nContent-Length: 2\r\n'],
    ['a length and chunks', 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n'],
    ['a signed length', 'Content-Length: +4\r\n'],
    ['a made-up transfer coding', 'Transfer-Encoding: xchunked\r\n'],
  ])('%s', async (_name, header) => {
    const { statuses, text } = await sendRaw(
      gateway,
      Buffer.from(`GET /api/v1/whoami HTTP/1.1\r\nHost: postern\r\n${header}\r\n`, 'latin1'),
    )
    expect(statuses, text).toEqual([400])
    expect(text).toContain('application/problem+json')
  })

  test('no Host header', async () => {
    const { statuses } = await sendRaw(gateway, 'GET /api/v1/whoami HTTP/1.1\r\n\r\n')
    expect(statuses).toEqual([400])
  })

  test('a header section that is too large returns 431', async () => {
    const { statuses, text } = await sendRaw(
      gateway,
      `GET /api/v1/whoami HTTP/1.1\r\nHost: postern\r\nX-Big: ${'a'.repeat(20_000)}\r\n\r\n`,
    )
    expect(statuses, text).toEqual([431])
  })

  test('an expectation that cannot be met returns 417', async () => {
    const { statuses } = await sendRaw(gateway, 'GET /api/v1/whoami HTTP/1.1\r\nHost: postern\r\nExpect: y\r\n\r\n')
    expect(statuses).toEqual([417])
  })
})

describe('a body that an operation does not accept', () => {
  const json = { 'content-type': 'application/json' }

  test('of another media type returns 415', async () => {
    expect(await post('title=x', { 'content-type': 'application/x-www-form-urlencoded' })).toEqual([
      415,
      'unsupported_media_type',
    ])
    expect(await post('{}', { 'content-type': 'text/plain' })).toEqual([415, 'unsupported_media_type'])
    expect(await post('{}')).toEqual([415, 'unsupported_media_type'])
    expect(await post(Buffer.from([31, 139, 8]), { ...json, 'content-encoding': 'gzip' })).toEqual([
      415,
      'unsupported_media_type',
    ])
  })

  test('that is not JSON, not UTF-8, or nested too deeply returns 400', async () => {
    for (const body of ['{', '', '\uFEFF{', '['.repeat(10_000), Buffer.from([0x22, 0xff, 0x22]), '{"title": 1e400x}']) {
      const [status] = await post(body, json)
      expect([400, 422]).toContain(status)
    }
    expect(await post('['.repeat(100) + ']'.repeat(100), json)).toEqual([400, 'malformed_json'])
    expect(await post('{"title":"x","condition":"x","severity":"high","__proto__":{}}', json)).toEqual([
      400,
      'malformed_json',
    ])
  })

  test('that is not a valid finding returns 422 with pointers to the errors', async () => {
    expect(await post({ title: '', condition: 'x', severity: 'high' })).toEqual([422, 'invalid_content'])
    expect(await post({ title: 'x', condition: 'x', severity: 'high', tenant_id: 'y' })).toEqual([
      422,
      'invalid_content',
    ])
  })

  test('that is too large returns 413, with or without Content-Length', async () => {
    expect(await post('x'.repeat(2 * 1024 * 1024), json)).toEqual([413, 'content_too_large'])
    const chunk = 'x'.repeat(65_536)
    const chunks = `${chunk.length.toString(16)}\r\n${chunk}\r\n`.repeat(40)
    const { statuses } = await sendRaw(
      gateway,
      `POST /api/v1/findings HTTP/1.1\r\nHost: postern\r\nAuthorization: ApiKey ${
        (await stack.createKey(await stack.createTenant(), { scopes: ['*'] })).key
      }\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`,
    )
    expect(statuses[0]).toBe(413)
  })

  test('that is compressed returns 415 at every operation and is never decompressed', async () => {
    const all = (await stack.createKey(await stack.createTenant(), { scopes: ['*'] })).key
    const taking = routeTable.filter(({ maxBodyBytes, access }) => maxBodyBytes > 0 && access.kind !== 'person')
    const codings = ['gzip', 'GZIP', 'x-gzip', 'br', 'deflate', 'zstd', 'compress', 'gzip, gzip', 'identity, gzip', '']
    const statusWith = async ({ method, path, bodyMediaTypes }: Route, coding: string | undefined) => {
      const target = path.replaceAll(/:\w+/g, 'x')
      const type = (bodyMediaTypes?.[0] ?? 'application/json').replace('*/*', 'text/plain')
      const head = `${method} ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: ApiKey ${all}\r\nContent-Type: ${type}\r\n`
      const encoding = coding === undefined ? '' : `Content-Encoding: ${coding}\r\n`
      const bytes = `${head}${encoding}Content-Length: 2\r\nConnection: close\r\n\r\n{}`
      let answer = await sendRaw(gateway, bytes, { limitMs: 30_000 })
      while (answer.statuses[0] === 503) answer = await sendRaw(gateway, bytes, { limitMs: 30_000 })
      return [method, path, coding, answer.statuses[0]] as const
    }
    const refused = await Promise.all(
      taking.flatMap((route) => codings.map(async (coding) => await statusWith(route, coding))),
    )
    expect(refused.filter(([, , , status]) => status !== 415)).toEqual([])
    expect(refused.length).toBeGreaterThan(100)
    // The control: the same request without a coding gets further, to whoever reads the body or finds no such thing.
    const plain = await Promise.all(taking.map(async (route) => await statusWith(route, undefined)))
    expect(plain.filter(([, , , status]) => status === undefined || status === 415)).toEqual([])
  })

  test('on a read returns 400', async () => {
    const answer = await send(gateway, '/api/v1/findings', { key, method: 'GET', body: { x: 1 } })
    expect([answer.status, answer.code]).toEqual([400, 'bad_request'])
  })
})

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const random = (): number => Math.floor(Math.random() * alphabet.length)

/** An unknown key that starts like `like`, up to a few characters before the checksum. */
function nearTo(like: string): string {
  const payload = like.slice(0, 46) + Array.from({ length: 5 }, () => alphabet[random()]).join('')
  return payload + keyChecksum(payload)
}

const rounds = 120
/** A kind of key whose responses are delayed. */
const planted = 'planted'
const plantedMs = 5

/** Response times in milliseconds by kind of key. The kinds take turns. */
async function measure(kinds: Readonly<Record<string, () => string>>): Promise<Map<string, number[]>> {
  const times = new Map<string, number[]>(Object.keys(kinds).map((kind) => [kind, []]))
  for (let round = 0; round < rounds; round += 1) {
    for (const [kind, make] of Object.entries(kinds)) {
      const credentials = make()
      const begun = performance.now()
      const answer = await send(gateway, '/api/v1/whoami', { key: credentials })
      if (kind === planted) await delay(plantedMs)
      if (answer.status === 401) times.get(kind)?.push(performance.now() - begun)
    }
  }
  return times
}

/** Returns the smallest added delay in milliseconds at which two equal samples differ; undefined if none does. */
function smallestSeen(one: readonly number[], other: readonly number[]): number | undefined {
  const effects = Array.from({ length: 12 }, (_, power) => 0.025 * 2 ** power)
  return effects.find(
    (effect) =>
      rankDistance(
        one.map((time) => time + effect),
        other,
      ) > 5,
  )
}

const middle = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0

describe('the time of a response', () => {
  test('does not reveal whether an unknown key is close to a valid one', async () => {
    expect(parseKey(nearTo(key))).toBeDefined()
    expect((await send(gateway, '/api/v1/whoami', { key })).status).toBe(200)
    expect((await send(gateway, '/api/v1/whoami', { key: revokedKey })).code).toBe('key_revoked')
    const distances: number[] = []
    const all = { far: [] as number[], mistyped: [] as number[], late: [] as number[] }
    let areControlsSeen = false
    // A busy machine may favour one of the two by chance, so a difference counts only if it repeats in one direction.
    // The controls are searched in all measurements so far.
    for (let attempt = 0; attempt < 5; attempt += 1) {
      const times = await measure({
        near: () => nearTo(key),
        far: () => generateKey().value,
        // The controls: one's checksum is wrong, which anyone can compute, and so it is not looked up; the other's answer
        // comes later by what is known.
        mistyped: () => generateKey().value.replace(/.{6}$/, '000000'),
        [planted]: () => generateKey().value,
        revoked: () => revokedKey,
      })
      const [near = [], far = [], mistyped = [], late = [], revoked = []] = [
        'near',
        'far',
        'mistyped',
        planted,
        'revoked',
      ].map((kind) => times.get(kind))
      distances.push(rankDistance(near, far))
      all.far.push(...far)
      all.mistyped.push(...mistyped)
      all.late.push(...late)
      areControlsSeen = rankDistance(all.far, all.mistyped) > 5 && rankDistance(all.late, all.far) > 5
      // The answer for a revoked key differs anyway, so its time is only reported.
      process.stdout.write(
        `timing: near ${distances.at(-1)?.toFixed(1)} deviations from far; smallest effect told ` +
          `${smallestSeen(near, far)?.toFixed(3) ?? 'none up to 50'} ms; planted ${plantedMs} ms: ${rankDistance(late, far).toFixed(1)}; ` +
          `revoked ${rankDistance(revoked, far).toFixed(1)}, by ${(middle(revoked) - middle(far)).toFixed(3)} ms\n`,
      )
      expect(revoked.length).toBeGreaterThan(rounds / 2)
      if (areControlsSeen && distances.some((distance) => Math.abs(distance) < 5)) break
    }
    expect(distances.every((distance) => distance > 5) || distances.every((distance) => distance < -5)).toBe(false)
    expect(areControlsSeen).toBe(true)
  })
})
