/**
 * @promise Keys and secrets: No secret is in a log, an error, a URL or a metric.
 * @alsoShownBy packages/local-stack/test/assert-no-key.test.ts
 */

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generateKey } from '@postern/api-key'
import { operator, startTestStack, type TestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send } from '../support/http.ts'
import { sendRaw } from '../support/raw.ts'

let stack: TestStack

beforeAll(async () => {
  stack = await startTestStack({ gateways: 2, env: { POSTERN_LOG_LEVEL: 'trace' } })
})

afterAll(async () => {
  await stack.stop()
})

test('no log contains a key, hash, secret or assertion, even at the most detailed level', async () => {
  const tenant = await stack.createTenant()
  const keys: string[] = []
  const answers: string[] = []
  for (const scopes of [['*'], ['read:findings'], ['write:evidence']] as const) {
    const { id, key } = await stack.createKey(tenant, { scopes: [...scopes] })
    keys.push(key)
    for (const gateway of stack.gateways) {
      for (const path of [
        '/api/v1/whoami',
        '/api/v1/findings',
        '/api/v1/entities',
        '/api/v1/nothing',
        '/api/v1/a/..',
      ]) {
        answers.push((await send(gateway, path, { key })).text)
      }
      answers.push((await send(gateway, `/api/v1/findings?q=${key}`, { key })).text)
      answers.push((await send(gateway, `/api/v1/findings/ext:${key}`, { key })).text)
      answers.push((await send(gateway, '/api/v1/findings', { key, method: 'POST', body: `{"title": "${key}` })).text)
      answers.push((await send(gateway, '/api/v1/whoami', { headers: { authorization: `Bearer ${key}` } })).text)
      answers.push((await send(gateway, '/api/v1/whoami', { headers: { authorization: `Basic ${key}` } })).text)
      answers.push(
        (await sendRaw(gateway, `GET /${key} HTTP/1.1\r\nHost: x\r\nAuthorization : ApiKey ${key}\r\n\r\n`)).text,
      )
    }
    const reported = generateKey().value
    keys.push(reported)
    answers.push(
      (await send(stack.gateways[0] ?? '', '/api/v1/leaked-keys', { method: 'POST', body: { keys: [reported] } })).text,
    )
    await stack.operator.call({ ...operator, tenantId: tenant.id }, 'POST', `/api/v1/api-keys/${id}/revoke`)
    answers.push((await send(stack.gateways[1] ?? '', '/api/v1/findings', { key })).text)
  }
  // A service that dies in the middle of requests must not say more than one that lives.
  stack.process('findings').kill('SIGKILL')
  const last = await stack.createKey(tenant, { scopes: ['*'] })
  keys.push(last.key)
  answers.push((await send(stack.gateways[0] ?? '', '/api/v1/findings', { key: last.key })).text)
  await stack.restart('findings')

  const logs = await stack.logs()
  // The control: the logs are those of this test.
  expect(logs).toContain('"event":"request"')
  expect(logs).toContain('"event":"upstream_failed"')
  const rings = [
    'POSTERN_SIGNING_FINDINGS',
    'POSTERN_ASSERTION_KEYS',
    'POSTERN_INTERNAL_SIGNING_KEYS',
    'POSTERN_CACHE_SIGNING_KEYS',
  ] as const
  const secrets = rings.map((name) => stack.ring(name).split(':')[1] ?? '').filter((secret) => secret !== '')
  expect(secrets).toHaveLength(4)
  for (const text of [logs, ...answers]) {
    for (const key of keys) {
      expect(text).not.toContain(key)
      expect(text).not.toContain(key.slice(-12))
      expect(text).not.toContain(Buffer.from(key).toString('base64').slice(0, 40))
      expect(text).not.toContain(createHash('sha256').update(key).digest('hex'))
    }
    for (const secret of secrets) expect(text).not.toContain(secret)
    expect(text).not.toMatch(/v1\.[\w-]+\.[0-9a-f-]{36}\.\d+\.[\w-]{43}/)
  }
})

test('the database stores only hashes of keys', async () => {
  const tenant = await stack.createTenant()
  const { key } = await stack.createKey(tenant, { scopes: ['read:findings'] })
  const { Client } = await import('pg')
  const client = new Client({ connectionString: stack.database.url('superuser') })
  await client.connect()
  const { rows } = await client.query<{ row: string }>('select k::text as row from keys.api_key k')
  await client.end()
  const text = rows.map(({ row }) => row).join('\n')
  expect(text).toContain(createHash('sha256').update(key).digest('hex'))
  expect(text).not.toContain(key)
  expect(text).not.toContain(key.slice(0, 30))
})

test('command lines and environments of processes contain no plain secret', async () => {
  const secret = stack.ring('POSTERN_ASSERTION_KEYS').split(':')[1] ?? ''
  const { pid } = stack.process('gateway-1')
  const commandLine = await readFile(join('/proc', String(pid), 'cmdline'), 'utf8')
  expect(secret).not.toBe('')
  expect(commandLine).toContain('gateway')
  expect(commandLine).not.toContain(secret)
})
