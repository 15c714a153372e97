import { randomBytes } from 'node:crypto'
import { problemSchema, receiptSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestBucket, startBucket } from './object-store.ts'
import { sha256, startEvidence, upload, uploaded, uploader } from './support.ts'

const csv = { 'content-type': 'text/csv' }
const tus = { 'tus-resumable': '1.0.0' }

let bucket: TestBucket
let service: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => {
  bucket = await startBucket()
  service = await startEvidence({ ...bucket.env, POSTERN_BLOB_S3_TIMEOUT_MS: '3000' })
})
afterAll(async () => {
  await service.close()
  await bucket.stop()
})

describe('evidence in a bucket', () => {
  test('is recorded once its bytes are there, and cannot be fetched past the service', async () => {
    const principal = uploader()
    const bytes = randomBytes(9 * 1024 * 1024)
    const receipt = await uploaded(service.caller, principal, bytes)
    expect(receipt).toMatchObject({ sha256: sha256(bytes), size_bytes: bytes.length })
    const [data, ...more] = await bucket.keys(`data/${principal.tenantId}`)
    expect(more).toEqual([])
    expect(await bucket.keys(`settling/${principal.tenantId}`)).toEqual([])
    const direct = await fetch(`${bucket.server.endpoint}/${bucket.config.bucket}/${bucket.config.prefix}${data}`)
    expect(direct.status).toBeGreaterThanOrEqual(400)
  })

  test('leaves nothing in the bucket when it is refused at its end', async () => {
    const principal = uploader()
    const headers = { ...csv, 'content-digest': `sha-256=:${Buffer.alloc(32).toString('base64')}:` }
    const answer = await upload(service.caller, principal, { body: randomBytes(9 * 1024 * 1024), headers })
    expect(answer).toMatchObject({ status: 422 })
    expect((await bucket.keys()).filter((key) => key.includes(principal.tenantId))).toEqual([])
    expect(await bucket.begun()).toBe(0)
  })

  test('goes on in pieces and is put together', async () => {
    const principal = uploader()
    const bytes = randomBytes(100_000)
    const begun = await service.caller.call(principal, 'POST', '/api/v1/evidence/uploads', {
      headers: {
        ...tus,
        'upload-length': String(bytes.length),
        'upload-metadata': `filename ${Buffer.from('a.bin').toString('base64')}`,
      },
    })
    const target = begun.headers['location'] ?? ''
    const send = async (from: number, to: number) =>
      await service.caller.call(principal, 'PATCH', target, {
        body: bytes.subarray(from, to),
        headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(from) },
      })
    expect((await send(0, 30_000)).headers['upload-offset']).toBe('30000')
    const last = await send(30_000, bytes.length)
    const [, payload = ''] = (last.headers['postern-receipt'] ?? '').split('.')
    expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toMatchObject({ sha256: sha256(bytes) })
    expect(await bucket.keys(`partial/${principal.tenantId}`)).toEqual([])
    expect(await bucket.keys(`blobs/${principal.tenantId}`)).toHaveLength(1)
  })

  test.each([
    ['is away', 'SIGKILL'],
    ['answers nothing', 'SIGSTOP'],
  ] as const)(
    'is 503 while the store %s, with nothing half visible, and taken when it is back',
    async (_what, signal) => {
      const principal = uploader()
      bucket.server.kill(signal)
      try {
        const answer = await upload(service.caller, principal, { body: 'a,b', headers: csv })
        expect(answer.status).toBe(503)
        expect(problemSchema.parse(answer.json).code).toBe('service_unavailable')
        expect(answer.headers['retry-after']).toBe('5')
        expect((await fetch(`${service.url}/internal/health/ready`)).status).toBe(503)
      } finally {
        if (signal === 'SIGSTOP') bucket.server.kill('SIGCONT')
        else await bucket.server.start()
      }
      expect(await service.rows('select from evidence.file where tenant_id = $1', [principal.tenantId])).toEqual([])
      const again = await upload(service.caller, principal, { body: 'a,b', headers: csv })
      expect(receiptSchema.parse(again.json).reference).toMatch(/-000001$/)
    },
  )
})
