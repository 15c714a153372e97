/**
 * @promise Edge: A service acts only on requests that the gateway signed for it, and once on each.
 * @alsoShownBy packages/signed-context/src/verify.test.ts
 */

import { createHash, createHmac, randomUUID } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { generateKey, hashKey } from '@postern/api-key'
import { redisRecordKey, redisRevocationChannel } from '@postern/contracts/internal'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import {
  createSigner,
  mintAssertion,
  nilTenantId,
  noAssertion,
  parseKeyRing,
  serializeContext,
} from '@postern/signed-context'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { send } from '../support/http.ts'
import { sendRaw } from '../support/raw.ts'

// An attacker on the internal network reaches the services directly, sees signed requests, and writes to Redis.
const services = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const
type Service = (typeof services)[number]

let stack: TestStack
let gateway: string
let tenantId: string
let redis: Redis

beforeAll(async () => {
  stack = await startTestStack({ env: { POSTERN_REQUEST_LOG: 'on' } })
  gateway = stack.gateways[0] ?? ''
  tenantId = (await stack.createTenant()).id
  redis = new Redis(stack.redis.url)
})

afterAll(async () => {
  redis.disconnect()
  await stack.stop()
})

const targets: Readonly<Record<Service, string>> = {
  keys: '/api/v1/api-keys',
  findings: '/api/v1/findings',
  universe: '/api/v1/entities',
  evidence: '/.well-known/jwks.json',
  sync: '/api/v1/connectors',
}
const rings = {
  keys: 'POSTERN_SIGNING_KEYS',
  findings: 'POSTERN_SIGNING_FINDINGS',
  universe: 'POSTERN_SIGNING_UNIVERSE',
  evidence: 'POSTERN_SIGNING_EVIDENCE',
  sync: 'POSTERN_SIGNING_SYNC',
} as const

interface Signing {
  readonly target?: string
  readonly ring?: string
  readonly keyName?: string
  readonly ageMs?: number
  /** The deviation of the clock that signed the assertion. */
  readonly assertionOffMs?: number
}

/** A request as the gateway would sign it for a service, header by header. */
function signed(service: Service, options: Signing = {}) {
  const { target = targets[service], ring, keyName = service, ageMs = 0, assertionOffMs = 0 } = options
  const isPublic = service === 'evidence' && target === targets.evidence
  const isOfPerson = service === 'keys' || service === 'evidence'
  const kind = isPublic ? ('service' as const) : isOfPerson ? ('user' as const) : ('api_key' as const)
  const context = serializeContext({
    tenantId: isPublic ? nilTenantId : tenantId,
    kind,
    id: isPublic ? 'gateway' : randomUUID(),
    label: '',
    scopes: kind === 'api_key' ? ['read:findings', 'read:universe', 'admin:sync'] : [],
    roles: kind === 'user' ? ['admin'] : [],
  })
  const assertion = isPublic
    ? noAssertion
    : mintAssertion(parseKeyRing(stack.database.assertionKeys), tenantId, Date.now() + assertionOffMs)
  const requestId = `forged-${randomUUID()}`
  const secret = parseKeyRing(ring ?? stack.ring(rings[service]))
  const { signatureInput, signature } = createSigner(secret, keyName).sign(
    { method: 'GET', target, context, assertion, requestId },
    Date.now() - ageMs,
  )
  return {
    'postern-context': context,
    'postern-assertion': assertion,
    'x-request-id': requestId,
    'signature-input': signatureInput,
    signature,
  }
}

type Headers = Readonly<Record<string, string>>

/** Sends exactly these headers and lines, and returns the status. */
async function statusOf(service: Service, headers: Headers, options: Sending = {}) {
  return (await answerTo(service, headers, options)).statuses[0]
}

interface Sending {
  readonly target?: string
  readonly method?: string
  readonly more?: string
}

async function answerTo(service: Service, headers: Headers, options: Sending = {}) {
  const { target = targets[service], method = 'GET', more = '' } = options
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = `${method} ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${lines.join('')}${more}\r\n`
  return await sendRaw(stack.serviceUrl(service), Buffer.from(head, 'latin1'), { limitMs: 30_000 })
}

/** Changes one character of a header. */
function altered(headers: Headers, name: string, at: number): Headers {
  const value = headers[name] ?? ''
  const place = at < 0 ? value.length + at : at
  const other = value[place] === 'A' ? 'B' : 'A'
  return { ...headers, [name]: value.slice(0, place) + other + value.slice(place + 1) }
}

describe.each(services)('the service %s, reached without the gateway,', (service) => {
  test('accepts a request that the gateway signed, once', async () => {
    const headers = signed(service)
    expect(await statusOf(service, headers)).toBe(200)
    expect(await statusOf(service, headers)).toBe(401)
  })

  test('rejects requests signed for another service, with another secret or another key name', async () => {
    for (const other of services) {
      if (other === service) continue
      expect(await statusOf(service, signed(service, { ring: stack.ring(rings[other]) })), other).toBe(401)
      expect(await statusOf(service, signed(service, { keyName: other })), other).toBe(401)
      expect(await statusOf(service, signed(other, { target: targets[service] })), other).toBe(401)
    }
  })

  test('rejects requests that are half a minute old or from the future', async () => {
    expect(await statusOf(service, signed(service, { ageMs: 31_000 }))).toBe(401)
    expect(await statusOf(service, signed(service, { ageMs: -30_000 }))).toBe(401)
    expect(await statusOf(service, signed(service, { ageMs: 10_000 }))).toBe(200)
  })

  test('rejects requests signed for another target or method', async () => {
    for (const target of [
      `${targets[service]}?limit=1`,
      '/internal/v1/leases',
      `${targets[service]}/${randomUUID()}`,
    ]) {
      expect([401, 404]).toContain(await statusOf(service, signed(service, { target })))
      expect([401, 404]).toContain(await statusOf(service, signed(service), { target }))
    }
    expect([401, 404]).toContain(
      await statusOf(service, signed(service), { method: 'POST', more: 'Content-Length: 0\r\n' }),
    )
  })

  test('rejects requests that were truncated, changed or extended after signing', async () => {
    const whole = signed(service)
    for (const name of Object.keys(whole)) {
      const value: string = Reflect.get(whole, name)
      const { [name]: _gone, ...rest }: Headers = whole
      expect(await statusOf(service, rest), `without ${name}`).toBe(401)
      for (const at of [0, 1, 9, 20, -2, -10]) {
        expect(await statusOf(service, altered(whole, name, at)), `${name} changed at ${at}`).toBe(401)
      }
      expect(await statusOf(service, { ...whole, [name]: value.slice(0, -1) }), `${name} cut short`).toBe(401)
      expect(await statusOf(service, whole, { more: `${name}: ${value}\r\n` }), `${name} twice`).toBe(401)
      expect(
        await statusOf(service, whole, { more: `${name.replaceAll('-', '_')}_: x\r\n${name.toUpperCase()}: x\r\n` }),
      ).toBe(401)
    }
    for (const more of [
      'X-Postern-Tenant: x',
      'Tenant-Id: x',
      'If-Match: "1"',
      'Idempotency-Key: x',
      'Content-Type: a/b',
    ]) {
      expect(await statusOf(service, whole, { more: `${more}\r\n` }), more).toBe(401)
    }
    // The control: the unchanged request is still accepted.
    expect(await statusOf(service, whole)).toBe(200)
  })

  test('returns 503 if PostgreSQL rejects the time of an assertion', async () => {
    const target = service === 'evidence' ? '/api/v1/evidence-files' : targets[service]
    expect(await statusOf(service, signed(service, { target }), { target })).toBe(200)
    const headers = signed(service, { target, assertionOffMs: 3_600_000 })
    const { statuses, text } = await answerTo(service, headers, { target })
    expect([statuses, /^retry-after: \d+\r$/im.test(text)], text).toEqual([[503], true])
    expect(text).not.toContain('assertion')
    await expect.poll(async () => await stack.logs()).toMatch(logged(headers['x-request-id']))
    // The assertion may have expired during the request.
    const over = await statusOf(service, signed(service, { target, assertionOffMs: -3_600_000 }), { target })
    expect(over).toBe(408)
  })
})

/** The line that says why. */
function logged(requestId: string): RegExp {
  return new RegExp(`^(?=.*"request_id":"${requestId}")(?=.*"request_failed")(?=.*"28000").*$`, 'm')
}

/** Redis’s form of a record, written apart from the code: order, MAC, JSON. */
function sealed(record: object & { version: number; tenantVersion: number; readAt: number }, ring: string): string {
  const { current } = parseKeyRing(ring)
  const order = `${record.version}.${record.tenantVersion}.${record.readAt}`
  const json = JSON.stringify(record)
  const mac = createHmac('sha256', current.secret)
    .update(`postern cache record 1\n${order}\n${json}`)
    .digest('base64url')
  return `${order}|${current.id}.${mac}|${json}`
}

const recordOf = (hash: string) => ({
  hash,
  id: randomUUID(),
  tenantId,
  tenantName: 'x',
  tenantStatus: 'active',
  tenantVersion: 1,
  label: 'planted',
  lastFour: 'xxxx',
  scopes: ['*'],
  allowedAddresses: [],
  expiresAt: Date.now() + 3_600_000,
  revoked: false,
  version: 1,
  readAt: Date.now(),
  keyLimit: 1000,
  tenantLimit: 1000,
})

/** What whoami says to a key, when the gateway holds a lease and so asks Redis. */
async function whoami(key: string) {
  for (;;) {
    const answer = await send(gateway, '/api/v1/whoami', { key })
    if (answer.status !== 503) return answer
    await wait(50)
  }
}

/** Invents a key, writes its record like the keys service, and returns the response of the gateway. */
async function plantAndUse(): Promise<number> {
  const { value } = generateKey()
  const hash = hashKey(value)
  await redis.set(redisRecordKey(hash), sealed(recordOf(hash), stack.ring('POSTERN_CACHE_SIGNING_KEYS')))
  return (await whoami(value)).status
}

describe('an attacker who writes to Redis', () => {
  test('control: with the secret of the keys service, an invented key is accepted', async () => {
    // Without a lease the gateway does not ask Redis, so this may need several attempts.
    await expect.poll(plantAndUse, { timeout: 20_000 }).toBe(200)
  })

  test('cannot create a key without that secret', async () => {
    const stolen = (await stack.createKey({ id: tenantId }, { scopes: ['*'] })).key
    expect((await whoami(stolen)).status).toBe(200)
    const trueRecord = (await redis.get(redisRecordKey(hashKey(stolen)))) ?? ''
    expect(trueRecord).toContain('|')
    for (const write of [
      (hash: string) => sealed(recordOf(hash), `k1:${Buffer.alloc(32).toString('base64url')}`),
      (hash: string) => sealed(recordOf(hash), stack.ring('POSTERN_CACHE_SIGNING_KEYS')).replace('"*"', '"*","*"'),
      (hash: string) => `1.1.1|k1.${'A'.repeat(43)}|${JSON.stringify(recordOf(hash))}`,
      (hash: string) => JSON.stringify(recordOf(hash)),
      // The valid record of another key, unchanged and under this key's hash.
      () => trueRecord,
      (hash: string) => trueRecord.replace(hashKey(stolen), hash),
      () => '',
      () => '\u0000'.repeat(100),
      () => '['.repeat(100_000),
      () => 'x'.repeat(5_000_000),
    ]) {
      const { value } = generateKey()
      await redis.set(redisRecordKey(hashKey(value)), write(hashKey(value)))
      expect((await whoami(value)).status).toBe(401)
    }
    const { value } = generateKey()
    await redis.lpush(redisRecordKey(hashKey(value)), 'x')
    expect((await whoami(value)).status).toBe(401)
  })

  test('cannot add scopes to a key or remove them', async () => {
    const { key } = await stack.createKey({ id: tenantId }, { scopes: ['read:findings'] })
    const hash = hashKey(key)
    const record = { ...recordOf(hash), scopes: ['*'] }
    await redis.set(redisRecordKey(hash), sealed(record, `k1:${createHash('sha256').update('x').digest('base64url')}`))
    const answer = await whoami(key)
    expect([answer.status, answer.text.includes('write:findings')]).toEqual([200, false])
    expect(answer.text).toContain('read:findings')
  })

  test.runIf(process.platform === 'linux')('is counted by what it was, for who is to hear of it', async () => {
    const { value } = generateKey()
    await redis.set(redisRecordKey(hashKey(value)), 'not a record')
    expect((await whoami(value)).status).toBe(401)
    expect(await redis.publish(redisRevocationChannel, 'not an announcement')).toBeGreaterThan(0)
    const environment = await readFile(`/proc/${stack.process('gateway-1').pid}/environ`, 'utf8')
    const [, port = ''] = /\0POSTERN_ADMIN_PORT=(\d+)\0/.exec(`\0${environment}`) ?? []
    const metrics = async () => await (await fetch(`http://127.0.0.1:${port}/internal/metrics`)).text()
    for (const what of ['record', 'announcement']) {
      await expect
        .poll(metrics)
        .toMatch(new RegExp(`^postern_gateway_cache_refused_total\\{[^}]*what="${what}"[^}]*\\} [1-9]`, 'm'))
    }
  })

  test('cannot revoke a key with a forged announcement, or with a record sent as one', async () => {
    const { key } = await stack.createKey({ id: tenantId }, { scopes: ['read:findings'] })
    expect((await whoami(key)).status).toBe(200)
    const json = JSON.stringify({ kind: 'key', seq: 1, hash: hashKey(key), version: 99, revoked: true })
    const record = (await redis.get(redisRecordKey(hashKey(key)))) ?? ''
    const messages = [json, `k1.${'A'.repeat(43)}|${json}`, record, record.slice(record.indexOf('|') + 1), '', '{']
    // One is there of the test before.
    const refusals = async () => (await stack.logs()).split('revocation_message_refused').length - 1
    const before = await refusals()
    for (const message of messages) {
      // The control: the gateway hears it.
      expect(await redis.publish(redisRevocationChannel, message)).toBeGreaterThan(0)
    }
    await expect.poll(refusals).toBeGreaterThanOrEqual(before + messages.length)
    expect((await whoami(key)).status).toBe(200)
  })

  test('cannot stop the gateway with invalid counters', async () => {
    const { key } = await stack.createKey({ id: tenantId }, { scopes: ['read:findings'] })
    expect((await whoami(key)).status).toBe(200)
    for (const name of await redis.keys('postern:*')) {
      await redis.del(name)
      await redis.sadd(name, 'rubbish')
    }
    expect((await whoami(key)).status).toBe(200)
    expect((await whoami(generateKey().value)).status).toBe(401)
  })
})

describe('an attacker whose input is logged', () => {
  test('cannot end or add a log line or send escape sequences to a terminal', async () => {
    for (const label of ['a\u0000', 'a\n{"event":"forged"}', '\u001b[2J', 'a\u202eb']) {
      await expect(stack.createKey({ id: tenantId }, { scopes: ['*'], label })).rejects.toThrow('422')
    }
    const { key } = await stack.createKey({ id: tenantId }, { scopes: ['*'], label: '"}{"event":"forged"}' })
    const forged = '%0d%0a{"event":"forged"}%1b[2J'
    const lines = [
      `X-Request-Id: x"}{"event":"forged"}`,
      `X-Request-Id: ${'a'.repeat(128)}`,
      `User-Agent: \u001b[31m{"event":"forged"}`,
      `X-Forwarded-For: 1.2.3.4","event":"forged`,
      `Referer: "}\\n{"event":"forged"}`,
    ]
    for (const line of lines) {
      for (const target of ['/api/v1/findings', `/api/v1/findings?q=${forged}`, `/api/v1/${forged}`, `/${forged}`]) {
        const head = `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: ApiKey ${key}\r\n${line}\r\n\r\n`
        await sendRaw(gateway, Buffer.from(head, 'latin1'))
      }
    }
    const written = await stack.logs()
    expect(forgedIn(written)).toEqual([])
    // The control: requests are in it, and a line that somebody has got into it is found, whatever it looks like.
    expect(written).toContain('"event":"request"')
    const planted = join(stack.home, 'logs', 'planted.log')
    for (const line of [
      '{"event":"forged"}',
      '{"event":"request","path":"\u001b[2J"}',
      'event: forged',
      '{"a":1}{"b":2}',
    ]) {
      await writeFile(planted, `${line}\n`)
      expect(forgedIn(await stack.logs())).toEqual([line])
    }
    await rm(planted)
  })
})

/** Lines of a log that no part of the product writes: not one object of JSON, an escape for terminals, or an event of ours. */
function forgedIn(log: string): string[] {
  return log.split('\n').filter((line) => {
    if (line === '') return false
    try {
      const event: unknown = JSON.parse(line)
      const isForged = typeof event === 'object' && event !== null && Reflect.get(event, 'event') === 'forged'
      return isForged || line.includes('"event":"forged') || line.includes('\u001b')
    } catch {
      return true
    }
  })
}
