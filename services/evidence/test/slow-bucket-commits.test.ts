import { problemSchema, receiptSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { file, form } from './form.ts'
import { type TestBucket, startBucket } from './object-store.ts'
import { person } from './people.ts'
import { type SlowStore, startSlowStore } from './slow-store.ts'
import { anyBytes, makeEnvironment, sha256, startEvidence, upload, uploaded, uploader } from './support.ts'

let bucket: TestBucket
let slow: SlowStore
let environment: Awaited<ReturnType<typeof makeEnvironment>>
let service: Awaited<ReturnType<typeof startEvidence>>
const env = () => ({
  ...bucket.env,
  POSTERN_BLOB_S3_ENDPOINT: slow.endpoint,
  POSTERN_BLOB_S3_TIMEOUT_MS: '60000',
  POSTERN_DATABASE_CONNECTIONS: '4',
})
beforeAll(async () => {
  bucket = await startBucket()
  slow = await startSlowStore(bucket.config.endpoint ?? '')
  environment = await makeEnvironment()
  service = await startEvidence(env(), {}, environment)
})
afterAll(async () => {
  await service.close()
  await slow.close()
  await bucket.stop()
})

const csv = { 'content-type': 'text/csv' }
const tus = { 'tus-resumable': '1.0.0' }
const nothing = /^nothing$/

/** Transactions of the service that are open and do nothing. */
async function idleTransactions() {
  return await service.rows(
    `select extract(epoch from clock_timestamp() - state_change)::float8 as seconds from pg_stat_activity
     where datname = current_database() and application_name = 'postern-evidence' and state like 'idle in transaction%'`,
  )
}

/** One that waits stays until PostgreSQL ends it after 10 s; any other is seen between two statements at most. */
async function expectNoneWaits() {
  let longest = 0
  await vi.waitFor(
    async () => {
      const idle = z.array(z.object({ seconds: z.number() })).parse(await idleTransactions())
      longest = Math.max(longest, ...idle.map(({ seconds }) => seconds))
      expect(idle).toEqual([])
    },
    { timeout: 30_000 },
  )
  expect(longest).toBeLessThan(5)
}

/** The service still serves other requests while the bucket hangs for one. */
async function expectOthersServed() {
  const other = uploader()
  await uploaded(service.caller, other, 'b,c')
  const list = await service.caller.call(person(other, 'auditor'), 'GET', '/api/v1/evidence-files')
  expect(z.array(z.unknown()).parse(list.json)).toHaveLength(1)
  expect((await fetch(`${service.url}/internal/health/ready`)).status).toBe(200)
}

async function begin(principal: Principal, length: number): Promise<string> {
  const headers = { ...tus, 'upload-length': String(length), 'upload-metadata': 'filename YS5jc3Y=' }
  const begun = await service.caller.call(principal, 'POST', '/api/v1/evidence/uploads', { headers })
  expect(begun.status).toBe(201)
  return begun.headers['location'] ?? ''
}

async function append(principal: Principal, target: string, offset: number, body: string) {
  return await service.caller.call(principal, 'PATCH', target, {
    body,
    headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(offset) },
  })
}

test('uploads that wait for the bucket hold no connection to the database, even a form of ten files', async () => {
  const principal = uploader()
  slow.hold(new RegExp(`/blobs/${principal.tenantId}/`))
  const ten = Array.from({ length: 10 }, (_, at) => file(`${at}.csv`, `${at}`))
  const waiting = [
    ...Array.from({ length: 11 }, (_, at) => upload(service.caller, principal, { body: `a,${at}`, headers: csv })),
    service.caller.call(principal, 'POST', '/api/v1/evidence', form(...ten)),
  ]
  await vi.waitFor(() => expect(slow.held()).toBe(21), { timeout: 30_000 })
  await expectNoneWaits()
  await expectOthersServed()
  expect(slow.held()).toBe(21)
  slow.refuse()
  for (const { status, json } of await Promise.all(waiting)) {
    expect([status, problemSchema.parse(json).code]).toEqual([503, 'service_unavailable'])
  }
  expect(await service.rows('select from evidence.file where tenant_id = $1', [principal.tenantId])).toEqual([])
  slow.hold(nothing)
})

test('a request that continues a broken piece asks the bucket for its length without locking the upload', async () => {
  const principal = uploader()
  const targets = await Promise.all(Array.from({ length: 5 }, async () => await begin(principal, 6)))
  const turns = `
    with taken as (update evidence.upload set turn = 1 where tenant_id = $1 returning id)
    insert into evidence.upload_piece (tenant_id, upload_id, turn, is_checked) select $1, id, 1, false from taken`
  await service.rows(turns, [principal.tenantId])
  slow.hold(new RegExp(`prefix=[^&]*partial[^&]*${principal.tenantId}`))
  const heads = targets.map(async (target) => await service.caller.call(principal, 'HEAD', target, { headers: tus }))
  await vi.waitFor(() => expect(slow.held()).toBe(targets.length), { timeout: 30_000 })
  await expectNoneWaits()
  await expectOthersServed()
  slow.refuse()
  for (const { status } of await Promise.all(heads)) expect(status).toBe(503)
  slow.hold(nothing)
  expect((await append(principal, targets[0] ?? '', 0, 'abcdef')).headers['postern-receipt']).toBeDefined()
})

test('a purge waits for the bucket without the database, and is repeated until the bytes are gone', async () => {
  const principal = uploader()
  const { id } = await uploaded(service.caller, principal, 'a,b')
  await service.rows('alter table evidence.file disable trigger file_never_changes')
  const old = `update evidence.file set received_at = now() - interval '3 years', retention_until = current_date - 1 where id = $1`
  await service.rows(old, [id])
  await service.rows('alter table evidence.file enable trigger file_never_changes')
  const purge = async () =>
    await service.caller.call(person(principal, 'admin'), 'POST', `/api/v1/evidence-files/${id}/purge`, {
      body: JSON.stringify({ reason: 'over' }),
      headers: { 'content-type': 'application/json' },
    })
  slow.hold(new RegExp(`DELETE .*/${principal.tenantId}/`))
  const first = purge()
  await vi.waitFor(() => expect(slow.held()).toBe(1), { timeout: 30_000 })
  await expectNoneWaits()
  await expectOthersServed()
  slow.refuse()
  const { status, json } = await first
  expect([status, problemSchema.parse(json).detail]).toEqual([503, expect.stringContaining('The file is purged')])
  slow.hold(nothing)
  expect((await purge()).status).toBe(200)
  expect((await bucket.keys()).filter((key) => key.includes(principal.tenantId))).toEqual([])
})

test('a receipt is returned even if the bucket does not delete the parts of the upload', async () => {
  const principal = uploader()
  slow.hold(new RegExp(`DELETE .*/${principal.tenantId}/`))
  slow.refuse()
  const single = await upload(service.caller, principal, { body: 'a,b', headers: csv })
  expect(receiptSchema.parse(single.json).sha256).toBe(sha256('a,b'))
  const several = await service.caller.call(
    principal,
    'POST',
    '/api/v1/evidence',
    form(file('c.csv', 'c'), file('d.csv', 'd')),
  )
  expect(z.array(receiptSchema).parse(several.json)).toHaveLength(2)
  const target = await begin(principal, 3)
  const last = await append(principal, target, 0, 'e,f')
  expect([last.status, last.headers['postern-receipt']]).toEqual([204, expect.any(String)])
  const given = await begin(principal, 3)
  expect((await service.caller.call(principal, 'DELETE', given, { headers: tus })).status).toBe(204)
  expect(await service.rows('select from evidence.file where tenant_id = $1', [principal.tenantId])).toHaveLength(4)
  expect(service.logs.filter((line) => line.includes('tidying_failed')).length).toBeGreaterThanOrEqual(3)
  // One file of a form waits for none of the others.
  slow.hold(new RegExp(`DELETE .*/settling/${principal.tenantId}/${sha256('g')}`))
  slow.refuse()
  const names = ['g', 'h', 'i']
  const parts = names.map((name) => file(`${name}.csv`, name))
  expect((await service.caller.call(principal, 'POST', '/api/v1/evidence', form(...parts))).status).toBe(201)
  const left = async () =>
    (await bucket.keys(`settling/${principal.tenantId}`)).filter((key) =>
      names.some((name) => key.includes(sha256(name))),
    )
  await expect.poll(left, { timeout: 30_000 }).toEqual([expect.stringContaining(sha256('g'))])
  slow.hold(nothing)
})

test('equal bytes of concurrent or repeated uploads are recorded each time and stored once', async () => {
  const principal = uploader()
  const bytes = anyBytes(100)
  await uploaded(service.caller, principal, bytes)
  // Cleaning may happen at the same time as the answer.
  const keys = async (what: string) => await bucket.keys(`${what}/${principal.tenantId}`)
  const held = await vi.waitFor(
    async () => {
      const found = await keys('data')
      expect(found).toHaveLength(1)
      return found
    },
    { timeout: 30_000 },
  )
  const receipts = await Promise.all(Array.from({ length: 6 }, () => uploaded(service.caller, principal, bytes)))
  expect(new Set(receipts.map(({ id }) => id)).size).toBe(6)
  await vi.waitFor(
    async () => {
      expect(await keys('data')).toEqual(held)
      expect(await keys('blobs')).toHaveLength(1)
    },
    { timeout: 30_000 },
  )
})

test('a failed recording leaves no second copy beside that of the next attempt', async () => {
  const principal = uploader()
  const { id } = await uploaded(service.caller, principal, 'first')
  const revise = async () =>
    await service.caller.call(principal, 'POST', `/api/v1/evidence/${id}/revisions?file_name=a.csv`, {
      body: 'second',
      headers: csv,
    })
  const statuses = (await Promise.all([revise(), revise()])).map(({ status }) => status)
  expect(statuses.toSorted()).toEqual([201, 409])
  await vi.waitFor(
    async () => {
      expect(await bucket.keys(`data/${principal.tenantId}`)).toHaveLength(2)
      expect(await bucket.keys(`settling/${principal.tenantId}`)).toEqual([])
    },
    { timeout: 30_000 },
  )
})

test('two replicas that complete the same upload at once return the same receipt of one file', async () => {
  const principal = uploader()
  const other = await startEvidence(env(), {}, environment)
  const target = await begin(principal, 6)
  slow.hold(new RegExp(`/blobs/${principal.tenantId}/`))
  const sending = append(principal, target, 0, 'abcdef')
  await vi.waitFor(() => expect(slow.held()).toBe(1), { timeout: 30_000 })
  const asking = other.caller.call(principal, 'HEAD', target, { headers: tus })
  await vi.waitFor(() => expect(slow.held()).toBe(2), { timeout: 30_000 })
  // Both are sent again, and go on.
  slow.refuse()
  slow.hold(nothing)
  const [sent, asked] = await Promise.all([sending, asking])
  expect([sent.status, asked.status]).toEqual([204, 200])
  expect(sent.headers['postern-receipt']).toBeDefined()
  expect(asked.headers['postern-receipt']).toBe(sent.headers['postern-receipt'])
  expect(await service.rows('select from evidence.file where tenant_id = $1', [principal.tenantId])).toHaveLength(1)
  const read = await service.caller.call(person(principal, 'auditor'), 'GET', '/api/v1/evidence-files')
  const [found] = z.array(z.object({ id: z.string() })).parse(read.json)
  const content = `/api/v1/evidence-files/${found?.id}/content`
  expect((await other.caller.call(person(principal, 'auditor'), 'GET', content)).text).toBe('abcdef')
  await other.stop()
})
