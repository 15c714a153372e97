/**
 * @promise Revocation: Requests in flight end within two seconds of the revocation: downloads are cut, uploads are rejected and
 * nothing is stored.
 * @alsoShownBy services/gateway/test/end-open-requests.test.ts
 */

import { once } from 'node:events'
import { connect } from 'node:net'
import { createHash } from 'node:crypto'
import { type TestStack, operator, startTestStack } from '@postern/local-stack/testing'
import { openTenantDb } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'

let stack: TestStack
let issuer: RunningIssuer
let owner: ReturnType<typeof openTenantDb>

beforeAll(async () => {
  issuer = await startIssuer()
  const provider = { name: 'Staff', issuer: issuer.url, clock_tolerance_seconds: 0 }
  stack = await startTestStack({ gateways: 2, env: { POSTERN_SIGN_IN: JSON.stringify({ providers: [provider] }) } })
  owner = openTenantDb({
    connectionString: stack.database.url('superuser'),
    maxConnections: 2,
    connectTimeoutMs: 60_000,
    queryTimeoutMs: 60_000,
    applicationName: 'open-requests-test',
  })
})

afterAll(async () => {
  await owner.close()
  await stack.stop()
  await issuer.stop()
})

const rows = async (text: string, values: readonly unknown[] = []) =>
  await owner.system(async (tx) => await tx.query<Record<string, unknown>>({ text, values }))
const stored = async (tenantId: string) =>
  (await rows('select from evidence.file where tenant_id = $1', [tenantId])).length

/** Opens a request whose body the test sends. */
async function open(origin: string, bytes: string) {
  let received = ''
  const socket = connect(Number(new URL(origin).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
  socket.write(bytes)
  return { socket, received: () => received }
}

const upload = (key: string, length: number, scheme = 'ApiKey'): string =>
  `POST /api/v1/evidence?file_name=a.csv HTTP/1.1\r\nHost: a\r\nAuthorization: ${scheme} ${key}\r\n` +
  `Content-Type: text/csv\r\nContent-Length: ${length}\r\n\r\n`

async function revoke(tenantId: string, keyId: string): Promise<void> {
  const answer = await stack.operator.call({ ...operator, tenantId }, 'POST', `/api/v1/api-keys/${keyId}/revoke`)
  expect(answer.status, answer.text).toBe(200)
}

describe.each([
  ['with Redis', async () => await stack.redis.start()],
  ['without Redis', async () => await stack.redis.stop()],
])('a revoke, %s,', (_with, arrange) => {
  test('rejects uploads that began before it at each gateway, and stores nothing of them', async () => {
    await arrange()
    const tenant = await stack.createTenant()
    const doomed = await stack.createKey(tenant, { scopes: ['write:evidence'] })
    const control = await stack.createKey(tenant, { scopes: ['write:evidence'] })
    const uploads = await Promise.all(
      stack.gateways.map(async (origin) => await open(origin, upload(doomed.key, 100) + 'a,b\n')),
    )
    const other = await open(stack.gateways[0] ?? '', upload(control.key, 8) + 'a,b\n')
    await expect.poll(() => uploads.every(({ socket }) => socket.bytesWritten > 100)).toBe(true)
    await revoke(tenant.id, doomed.id)
    for (const { received } of uploads) {
      await expect.poll(received).toMatch(/^HTTP\/1\.1 401 [^]*\/problems\/key-revoked/)
    }
    for (const { socket } of uploads) socket.write('x'.repeat(96))
    other.socket.write('c,d\n')
    await expect.poll(other.received).toMatch(/^HTTP\/1\.1 201 /)
    expect(await stored(tenant.id)).toBe(1)
    for (const { socket } of [...uploads, other]) socket.destroy()
  })
})

test('a revocation rejects an upload whose last byte arrived before it, and stores nothing of it', async () => {
  const tenant = await stack.createTenant()
  const doomed = await stack.createKey(tenant, { scopes: ['write:evidence'] })
  const control = await stack.createKey(tenant, { scopes: ['write:evidence'] })
  const content = `a,${tenant.id}\n`
  const sha256 = createHash('sha256').update(content).digest('hex')
  const [origin = ''] = stack.gateways
  const notAccepted = /^HTTP\/1\.1 (?:502 [^]*\/problems\/bad-gateway|503 [^]*there is no receipt)/
  let uploads: Awaited<ReturnType<typeof open>>[] = []
  await owner.system(async (tx) => {
    const name = `evidence.blob:${tenant.id}:${sha256}`
    await tx.query({ text: 'select pg_advisory_xact_lock(hashtextextended($1, 0))', values: [name] })
    uploads = await Promise.all(
      [doomed, control].map(async ({ key }) => await open(origin, upload(key, content.length) + content)),
    )
    const waiting = `select from pg_locks where locktype = 'advisory' and not granted
                       and database = (select oid from pg_database where datname = current_database())`
    await expect.poll(async () => (await rows(waiting)).length).toBe(2)
    await revoke(tenant.id, doomed.id)
    // On a busy machine evidence stops waiting for the lock, and refuses both, before the gateway ends the one.
    await expect.poll(() => uploads[0]?.received()).toMatch(notAccepted)
    expect(uploads[1]?.received()).toMatch(/^$|^HTTP\/1\.1 503 /)
  })
  await expect.poll(() => uploads[1]?.received()).toMatch(/^HTTP\/1\.1 (?:201|503) /)
  if (uploads[1]?.received().startsWith('HTTP/1.1 503') === true)
    await open(origin, upload(control.key, content.length) + content)
  await expect.poll(async () => await stored(tenant.id)).toBe(1)
  const [file] = await rows('select created_by_id from evidence.file where tenant_id = $1', [tenant.id])
  expect(file).toEqual({ created_by_id: control.id })
})

test('an upload of a person ends when the access token expires, and nothing of it is stored', async () => {
  const tenant = await stack.createTenant()
  const [origin = ''] = stack.gateways
  const tokenFor = async (expiresInSeconds: number) =>
    await issuer.issue({ tenantId: tenant.id, roles: ['admin', 'auditor'], expiresInSeconds })
  const lines = 'a,b\n'.repeat(256)
  let left = 4000
  // The first request of a provider reads its keys.
  const control = await open(origin, upload(await tokenFor(600), left * lines.length, 'Bearer'))
  const cut = await open(origin, upload(await tokenFor(10), 100, 'Bearer') + 'a,b\n')
  const receivedByCut = () => {
    // Gateways end uploads that stand still.
    control.socket.write(lines)
    left -= 1
    return cut.received()
  }
  await expect
    .poll(receivedByCut, { timeout: 60_000 })
    .toMatch(/^HTTP\/1\.1 401 [^]*\/problems\/invalid-token[^]*expired while the request was open/)
  cut.socket.write('x'.repeat(96))
  control.socket.write(lines.repeat(left))
  await expect.poll(control.received).toMatch(/^HTTP\/1\.1 201 /)
  expect(await stored(tenant.id)).toBe(1)
  for (const { socket } of [cut, control]) socket.destroy()
})
