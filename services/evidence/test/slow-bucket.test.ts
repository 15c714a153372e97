import { once } from 'node:events'
import { type IncomingMessage, get } from 'node:http'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { problemSchema, receiptSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { file, form } from './form.ts'
import { type TestBucket, startBucket } from './object-store.ts'
import { type SlowStore, startSlowStore } from './slow-store.ts'
import { anyBytes, makeEnvironment, sha256, startEvidence, upload, uploaded, uploader } from './support.ts'

let bucket: TestBucket
let slow: SlowStore
let environment: Awaited<ReturnType<typeof makeEnvironment>>
beforeAll(async () => {
  ;[bucket, environment] = await Promise.all([startBucket(), makeEnvironment()])
  slow = await startSlowStore(bucket.config.endpoint ?? '')
})
afterAll(async () => {
  await slow.close()
  await environment.database.drop()
  await bucket.stop()
})

const csv = { 'content-type': 'text/csv' }
/** More than a part, so that one is sent while more of the body comes. */
const bytes = anyBytes(10 * 1024 * 1024)

async function startOnSlowBucket(env: Record<string, string>) {
  return await startEvidence({ ...bucket.env, POSTERN_BLOB_S3_ENDPOINT: slow.endpoint, ...env }, {}, environment)
}

test('uploads whose bucket hangs do not block others', async () => {
  const service = await startOnSlowBucket({ POSTERN_BLOB_S3_TIMEOUT_MS: '60000', POSTERN_BLOB_S3_PARTS: '40' })
  const principal = uploader()
  slow.hold(new RegExp(`/data/${principal.tenantId}/\\w+\\?.*partNumber`))
  // More than there are blocks to receive into, had each of them one.
  const waiting = Array.from({ length: 17 }, () => upload(service.caller, principal, { body: bytes, headers: csv }))
  await vi.waitFor(() => expect(slow.held()).toBe(waiting.length), { timeout: 30_000 })
  const receipt = await uploaded(service.caller, uploader(), bytes)
  expect(receipt.sha256).toBe(sha256(bytes))
  expect(slow.held()).toBe(waiting.length)
  slow.refuse()
  for (const { status, json, headers } of await Promise.all(waiting)) {
    expect([status, problemSchema.parse(json).code]).toEqual([503, 'service_unavailable'])
    expect(headers['retry-after']).toBe('5')
  }
  expect((await bucket.keys()).filter((key) => key.includes(principal.tenantId))).toEqual([])
  await service.stop()
})

test('uploads wait if the memory for parts is used up, without losses; small ones need none', async () => {
  const service = await startOnSlowBucket({ POSTERN_BLOB_S3_TIMEOUT_MS: '60000', POSTERN_BLOB_S3_PARTS: '4' })
  const principal = uploader()
  slow.hold(new RegExp(`/data/${principal.tenantId}/\\w+\\?.*partNumber`))
  // Each of its own bytes.
  const all = Array.from({ length: 4 }, (_none, at) =>
    upload(service.caller, principal, { body: bytes.subarray(at), headers: csv }),
  )
  await vi.waitFor(() => expect(slow.held()).toBe(2), { timeout: 30_000 })
  await uploaded(service.caller, principal, anyBytes(900 * 1024))
  expect(slow.held()).toBe(2)
  slow.refuse()
  slow.hold(/^nothing$/)
  for (const { status, text } of await Promise.all(all)) expect(status, text).toBe(201)
  await service.stop()
})

test('no response waits for the cleanup of the bucket, whose duration would reveal known bytes', async () => {
  const left: (() => Promise<void>)[] = []
  const afterwards = {
    run: async (work: (signal: AbortSignal) => Promise<void>) => {
      left.push(async () => await work(AbortSignal.abort()))
      return await new Promise<never>(() => undefined)
    },
    close: async () => undefined,
  }
  const service = await startEvidence(bucket.env, { cleanup: afterwards }, environment)
  const principal = uploader()
  await uploaded(service.caller, principal, 'a,b')
  await uploaded(service.caller, principal, 'a,b')
  const target = await begin(service.caller, principal, 3)
  const last = await service.caller.call(principal, 'PATCH', target, { body: 'a,b', headers: piece })
  expect([last.status, last.headers['postern-receipt']]).toEqual([204, expect.any(String)])
  expect(left).toHaveLength(3)
  for (const work of left) await work()
  await service.stop()
})

const tus = { 'tus-resumable': '1.0.0' }

async function begin(caller: SignedCaller, principal: Principal, size: number): Promise<string> {
  const { headers } = await caller.call(principal, 'POST', '/api/v1/evidence/uploads', {
    headers: { ...tus, 'upload-length': String(size), 'upload-metadata': 'filename YS5jc3Y=' },
  })
  return headers['location'] ?? ''
}

const piece = { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' }

/** A body that stalls after its beginning was read. */
function stallingBody(first: Buffer) {
  const isRead = Promise.withResolvers<void>()
  let isSent = false
  const body = new Readable({
    read: () => {
      if (isSent) isRead.resolve()
      else body.push(first)
      isSent = true
    },
  })
  return { body, taken: isRead.promise }
}

test('stalled senders do not block others, and their files are complete when they continue', async () => {
  const service = await startOnSlowBucket({ POSTERN_BLOB_S3_PARTS: '2' })
  const { caller } = service
  const [pieces, whole] = [uploader(), uploader()]
  const bodies = Array.from({ length: 3 }, () => stallingBody(bytes.subarray(0, 2 * 1024 * 1024)))
  const [first, second, third] = bodies.map(({ body }) => body)
  const answers = [
    caller.call(pieces, 'PATCH', await begin(caller, pieces, bytes.length), { body: first, headers: piece }),
    caller.call(pieces, 'PATCH', await begin(caller, pieces, bytes.length), { body: second, headers: piece }),
    upload(caller, whole, { body: third, headers: csv }),
  ]
  // One of the tenant that has half of the room waits for the other.
  await Promise.all([bodies[2]?.taken, Promise.race([bodies[0]?.taken, bodies[1]?.taken])])
  await uploaded(caller, uploader(), bytes)
  for (const { body } of bodies) {
    body.push(bytes.subarray(2 * 1024 * 1024))
    body.push(null)
  }
  for (const { text, headers, json } of await Promise.all(answers)) {
    const [, payload = ''] = (headers['postern-receipt'] ?? receiptSchema.parse(json).jws).split('.')
    const receipt: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString())
    expect(receipt, text).toMatchObject({ sha256: sha256(bytes), size_bytes: bytes.length })
  }
  await vi.waitFor(async () => expect(await bucket.keys('partial/')).toEqual([]), { timeout: 30_000 })
  await service.stop()
})

test('the files of a form do not wait for each other’s memory', async () => {
  const service = await startOnSlowBucket({ POSTERN_BLOB_S3_PARTS: '1' })
  const files = ['a.csv', 'b.csv', 'c.csv'].map((name) => file(name, anyBytes(2 * 1024 * 1024)))
  const answer = await service.caller.call(uploader(), 'POST', '/api/v1/evidence', form(...files))
  expect(answer.status, answer.text).toBe(201)
  await service.stop()
})

test('more uploads than the default connections of the bucket’s client do not block either', async () => {
  const service = await startOnSlowBucket({ POSTERN_BLOB_S3_TIMEOUT_MS: '60000' })
  const principal = uploader()
  slow.hold(new RegExp(`/settling/${principal.tenantId}/`))
  const waiting = Array.from({ length: 60 }, (_, at) =>
    upload(service.caller, principal, { body: `a,${at}`, headers: csv }),
  )
  await vi.waitFor(() => expect(slow.held()).toBe(waiting.length), { timeout: 30_000 })
  await uploaded(service.caller, uploader(), 'a,b')
  expect((await fetch(`${service.url}/internal/health/ready`)).status).toBe(200)
  expect(slow.held()).toBe(waiting.length)
  slow.refuse()
  for (const { status } of await Promise.all(waiting)) expect(status).toBe(503)
  await service.stop()
})

test('a slow bucket is reported as 503, not as a slow sender (408), for every kind of upload', async () => {
  const service = await startOnSlowBucket({ POSTERN_BLOB_S3_TIMEOUT_MS: '3000', POSTERN_EVIDENCE_STALL_MS: '1000' })
  const principal = uploader()
  const target = await begin(service.caller, principal, bytes.length)
  slow.hold(new RegExp(`/(?:data|partial)/${principal.tenantId}/`))
  const multipart = form(file('a.csv', bytes))
  const answers = await Promise.all([
    upload(service.caller, principal, { body: bytes, headers: csv }),
    service.caller.call(principal, 'POST', '/api/v1/evidence', multipart),
    service.caller.call(principal, 'PATCH', target, { body: bytes, headers: piece }),
  ])
  for (const { status, json, headers } of answers) {
    expect([status, problemSchema.parse(json).code]).toEqual([503, 'service_unavailable'])
    expect(headers['retry-after']).toBe('5')
  }
  await service.stop()
})

test('a reader of evidence can pause for longer than the bucket’s time limit', async () => {
  const principal = { ...uploader(), scopes: ['write:evidence'] }
  // More than the buffers of connections hold.
  const large = anyBytes(40 * 1024 * 1024)
  // Uploaded with the default timeout, which a busy machine can keep.
  const uploading = await startEvidence(bucket.env, {}, environment)
  const { id } = await uploaded(uploading.caller, principal, large)
  await uploading.stop()
  const service = await startOnSlowBucket({ POSTERN_BLOB_S3_TIMEOUT_MS: '1000' })
  const auditor = { tenantId: principal.tenantId, kind: 'user', id: 'ada', label: 'Ada', roles: ['auditor'] } as const
  const target = `/api/v1/evidence-files/${id}/content`
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  get(`${service.url}${target}`, { headers: service.caller.sign(auditor, 'GET', target), agent: false }, resolve).once(
    'error',
    reject,
  )
  const answer = await promise
  expect(answer.statusCode).toBe(200)
  await once(answer, 'readable')
  const pausedAt = performance.now()
  await expect.poll(() => performance.now() - pausedAt).toBeGreaterThan(3000)
  expect(sha256(await buffer(answer))).toBe(sha256(large))
  await service.stop()
})
