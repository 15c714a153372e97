import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { problemSchema, receiptSchema } from '@postern/contracts'
import { makeTestFolder } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { moveToBucket } from '../src/blob/move.ts'
import { openBucketStores } from '../src/blob/open-stores.ts'
import { readConfig } from '../src/config.ts'
import { readMoveConfig } from '../src/move-config.ts'
import { runMove } from './move.ts'
import { type TestBucket, startBucket } from './object-store.ts'
import { person } from './people.ts'
import {
  anyBytes,
  contentDigest,
  listFiles,
  makeEnvironment,
  sha256,
  startEvidence,
  upload,
  uploaded,
  uploader,
} from './support.ts'

const csv = { 'content-type': 'text/csv' }
const contentOf = ({ id }: { readonly id: string }) => `/api/v1/evidence-files/${id}/content`
const tus = { 'tus-resumable': '1.0.0' }

let bucket: TestBucket
let service: Awaited<ReturnType<typeof startEvidence>>
/** Another replica, which gives a store up after three seconds. The others must not feel it on a busy machine. */
let hasty: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => {
  bucket = await startBucket()
  const environment = await makeEnvironment()
  service = await startEvidence({ ...bucket.env, POSTERN_BLOB_S3_TIMEOUT_MS: '30000' }, {}, environment)
  hasty = await startEvidence({ ...bucket.env, POSTERN_BLOB_S3_TIMEOUT_MS: '3000' }, {}, environment)
})
afterAll(async () => {
  await hasty.stop()
  await service.close()
  await bucket.stop()
})

/** Returns the readiness of the impatient replica. */
async function writable(): Promise<string> {
  await fetch(`${hasty.url}/internal/health/ready`)
  return await (await fetch(`${hasty.url}/internal/metrics`)).text()
}

describe('evidence in a bucket', () => {
  test('is recorded once its bytes are stored, and cannot be fetched without the service', async () => {
    const principal = uploader()
    const bytes = anyBytes(9 * 1024 * 1024)
    const receipt = await uploaded(service.caller, principal, bytes)
    expect(receipt).toMatchObject({ sha256: sha256(bytes), size_bytes: bytes.length })
    const [data, ...more] = await bucket.keys(`data/${principal.tenantId}`)
    expect(more).toEqual([])
    await expect.poll(async () => await bucket.keys(`settling/${principal.tenantId}`)).toEqual([])
    const direct = await fetch(`${bucket.server.endpoint}/${bucket.config.bucket}/${bucket.config.prefix}${data}`)
    expect(direct.status).toBeGreaterThanOrEqual(400)
    const read = await service.caller.call(person(principal, 'auditor'), 'GET', contentOf(receipt))
    expect(read).toMatchObject({ status: 200, headers: { 'content-digest': contentDigest(bytes) } })
  })

  test('leaves no objects in the bucket if it is rejected at its end', async () => {
    const principal = uploader()
    const headers = { ...csv, 'content-digest': `sha-256=:${Buffer.alloc(32).toString('base64')}:` }
    const answer = await upload(service.caller, principal, { body: anyBytes(9 * 1024 * 1024), headers })
    expect(answer).toMatchObject({ status: 422 })
    expect((await bucket.keys()).filter((key) => key.includes(principal.tenantId))).toEqual([])
    expect(await bucket.begun()).toBe(0)
  })

  test('can arrive in pieces and is put together', async () => {
    const principal = uploader()
    const bytes = anyBytes(100_000)
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
    await expect.poll(async () => await bucket.keys(`partial/${principal.tenantId}`)).toEqual([])
    expect(await bucket.keys(`blobs/${principal.tenantId}`)).toHaveLength(1)
  })

  test.each([
    ['is away', 'SIGKILL'],
    ['answers nothing', 'SIGSTOP'],
  ] as const)(
    'is 503 while the store %s, with nothing half visible, and taken when it is back',
    async (_what, signal) => {
      const principal = uploader()
      const kept = await uploaded(service.caller, principal, 'kept before')
      const readKept = async () => await hasty.caller.call(person(principal, 'auditor'), 'GET', contentOf(kept))
      await expect.poll(writable).toContain('postern_evidence_store_writable{service="evidence"} 1')
      const send = async () => await upload(hasty.caller, principal, { body: 'a,b', headers: csv })
      bucket.server.kill(signal)
      try {
        const answer = await send()
        expect(answer.status).toBe(503)
        expect(problemSchema.parse(answer.json).code).toBe('service_unavailable')
        expect(answer.headers['retry-after']).toBe('5')
        expect((await readKept()).status).toBe(503)
        // The service continues and reports the fault.
        await expect
          .poll(async () => await writable())
          .toContain('postern_evidence_store_writable{service="evidence"} 0')
        expect((await fetch(`${hasty.url}/internal/health/ready`)).status).toBe(200)
        const files = await hasty.caller.call(person(principal, 'auditor'), 'GET', '/api/v1/evidence-files')
        expect(files.status).toBe(200)
      } finally {
        if (signal === 'SIGSTOP') bucket.server.kill('SIGCONT')
        else await bucket.server.start()
      }
      const files = await service.rows('select id from evidence.file where tenant_id = $1', [principal.tenantId])
      expect(files).toEqual([{ id: kept.id }])
      const viewed = "select from evidence.custody_event where kind = 'viewed' and file_id = $1"
      expect(await service.rows(viewed, [kept.id])).toEqual([])
      // A store that has just come back may take more than three seconds once more.
      await expect.poll(async () => (await readKept()).text).toBe('kept before')
      expect(await service.rows(viewed, [kept.id])).toHaveLength(1)
      const taken = async () => await send().then(({ status, json }) => (status === 503 ? undefined : json))
      const again = await vi.waitUntil(taken, { timeout: 60_000 })
      expect(receiptSchema.parse(again).reference).toMatch(/-000002$/)
    },
  )
})

describe('evidence that is moved from a directory to a bucket', () => {
  test('is complete there after an interrupted run was repeated, with resumable uploads that continue', async () => {
    const environment = await makeEnvironment()
    const { blobDirectory } = environment
    const before = await startEvidence({}, {}, environment)
    const [one, two] = [uploader(), uploader()]
    const large = anyBytes(100_000)
    const kept = [
      await uploaded(before.caller, one, 'shared by both'),
      await uploaded(before.caller, one, large),
      await uploaded(before.caller, two, 'shared by both'),
    ]
    const owners = [one, one, two]
    const begun = await before.caller.call(one, 'POST', '/api/v1/evidence/uploads', {
      headers: { ...tus, 'upload-length': '6', 'upload-metadata': 'filename YS5jc3Y=' },
    })
    const target = begun.headers['location'] ?? ''
    const piece = (offset: string) => ({
      ...tus,
      'content-type': 'application/offset+octet-stream',
      'upload-offset': offset,
    })
    const sent = await before.caller.call(one, 'PATCH', target, { body: 'abc', headers: piece('0') })
    expect(sent.headers['upload-offset']).toBe('3')

    const [receipt] = kept
    // Cut off between the store and its row: only a sweep may decide about it.
    const cutOff = sha256('cut off')
    const cutOffPath = join(blobDirectory, 'blobs', one.tenantId, cutOff.slice(0, 2))
    await mkdir(cutOffPath, { recursive: true })
    await writeFile(join(cutOffPath, cutOff), 'cut off')
    await mkdir(join(blobDirectory, 'settling', one.tenantId), { recursive: true })
    await writeFile(join(blobDirectory, 'settling', one.tenantId, `${cutOff}.${'0'.repeat(32)}`), 'cut off')
    await before.stop()

    // The first run is stopped half way; the next one resumes.
    const stores = await openBucketStores(bucket.config)
    const end = new AbortController()
    const first = moveToBucket(blobDirectory, stores, { signal: end.signal, say: () => end.abort() })
    await expect(first).rejects.toThrow('aborted')
    const env = { ...bucket.env, POSTERN_BLOB_MOVE_FROM: blobDirectory }
    for (const [copied, found] of [
      [3, 1],
      [0, 4],
    ]) {
      expect(await runMove(env)).toMatchObject({
        code: 0,
        last: { event: 'evidence_moved', copied, found, pieces: 1, damaged: 0 },
      })
    }
    expect(await bucket.keys(`settling/${one.tenantId}`)).toEqual([expect.stringContaining(cutOff)])
    expect(await bucket.keys(`settling/${two.tenantId}`)).toEqual([])

    const sweeping = { POSTERN_EVIDENCE_ABANDONED_AFTER_MS: '0', POSTERN_EVIDENCE_SWEEP_MS: '1000' }
    const sweeper = await startEvidence({ ...bucket.env, ...sweeping }, {}, environment)
    await expect.poll(async () => await bucket.keys(`blobs/${one.tenantId}/${cutOff}`)).toEqual([])
    await sweeper.stop()

    const after = await startEvidence(bucket.env, {}, environment)
    const last = await after.caller.call(one, 'PATCH', target, { body: 'def', headers: piece('3') })
    const [, payload = ''] = (last.headers['postern-receipt'] ?? '').split('.')
    expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toMatchObject({ sha256: sha256('abcdef') })
    const read = await after.caller.call(person(one, 'auditor'), 'GET', contentOf({ id: receipt?.id ?? '' }))
    expect(read).toMatchObject({ status: 200, text: 'shared by both' })
    const { blobs } = stores
    for (const [at, { sha256: digest }] of kept.entries()) {
      const chunks: Uint8Array[] = []
      for await (const chunk of await blobs.read({ tenantId: owners[at]?.tenantId ?? '', sha256: digest }))
        chunks.push(chunk)
      expect(sha256(Buffer.concat(chunks))).toBe(digest)
    }
    stores.close()
    await after.close()
  })

  test('is reported and not moved if its bytes do not match its name', async () => {
    const folder = await makeTestFolder('blobs')
    const tenantId = randomUUID()
    const digest = sha256('as it was')
    const path = join(folder, 'blobs', tenantId, digest.slice(0, 2))
    await mkdir(path, { recursive: true })
    await writeFile(join(path, digest), 'as it is')
    const stores = await openBucketStores(bucket.config)
    const move = async () => {
      const options = { signal: new AbortController().signal, say: () => undefined }
      return await moveToBucket(folder, stores, options)
    }
    expect(await move()).toMatchObject({ copied: 0, damaged: [join(path, digest)] })
    expect((await bucket.keys()).filter((key) => key.includes(tenantId))).toEqual([])
    expect(await listFiles(path)).toEqual([digest])
    // The control: nothing is wrong with it once it is what it was.
    await writeFile(join(path, digest), 'as it was')
    expect(await move()).toMatchObject({ copied: 1, damaged: [] })
    stores.close()
  })

  test('needs a source and a bucket', () => {
    expect(() => readMoveConfig(bucket.env)).toThrow('POSTERN_BLOB_MOVE_FROM')
    expect(() => readMoveConfig({ POSTERN_BLOB_MOVE_FROM: '/var/lib/postern/blobs' })).toThrow('must be set')
    expect(() => readMoveConfig({ POSTERN_BLOB_DIRECTORY: '/a', POSTERN_BLOB_MOVE_FROM: '/b' })).toThrow('MOVE_FROM')
    const { directory } = readMoveConfig({ ...bucket.env, POSTERN_BLOB_MOVE_FROM: '/b' })
    expect(directory).toBe('/b')
    // The service would not find what is only there.
    expect(() => readConfig({ ...bucket.env, POSTERN_BLOB_MOVE_FROM: '/b' })).toThrow('only for move-to-bucket')
  })
})
