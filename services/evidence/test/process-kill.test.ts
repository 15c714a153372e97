import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { type Receipt, receiptSchema } from '@postern/contracts'
import type { CallAnswer, Principal, SignedCaller } from '@postern/local-stack/testing'
import { openTenantDb } from '@postern/tenant-db'
import { compactVerify, createLocalJWKSet, decodeJwt } from 'jose'
import { expect, test, vi } from 'vitest'
import { z } from 'zod'
import { openStores } from '../src/blob/open-stores.ts'
import type { StoreConfig } from '../src/store-config.ts'
import { startBucket } from './object-store.ts'
import { listFiles, makeEnvironment, spawnEvidence, upload, uploader } from './support.ts'

const chunkBytes = 64 * 1024
const boundary = 'a-boundary-of-the-tests'

/** Yields random chunks, each after the previous one was read, the last one after `until`. */
async function* chunksOf(chunks: number, until: Promise<void> | undefined): AsyncGenerator<Buffer> {
  for (let count = 1; count <= chunks; count += 1) {
    if (count === chunks) await until
    yield randomBytes(chunkBytes)
  }
}

async function* inForm(chunks: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n`)
  yield Buffer.from('Content-Type: text/csv\r\n\r\n')
  yield* chunks
  yield Buffer.from(`\r\n--${boundary}--\r\n`)
}

type Send = (
  caller: SignedCaller,
  who: Principal,
  file: { readonly chunks: AsyncGenerator<Buffer>; readonly size: number },
) => Promise<Receipt | undefined>

/** A store that is slow with so many at once may let some of them wait too long: a 503, and no receipt. */
const isTaken = ({ status, text }: CallAnswer, expected: number): boolean => {
  if (status !== 503) expect(status, text).toBe(expected)
  return status === expected
}

/** Each way of uploading a file; returns its receipt. */
const ways: readonly Send[] = [
  async (caller, who, { chunks }) => {
    const options = { body: Readable.from(chunks), headers: { 'content-type': 'text/csv' } }
    const answer = await upload(caller, who, options)
    return isTaken(answer, 201) ? receiptSchema.parse(answer.json) : undefined
  },
  async (caller, who, { chunks }) => {
    const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` }
    const body = Readable.from(inForm(chunks))
    const answer = await caller.call(who, 'POST', '/api/v1/evidence', { body, headers })
    return isTaken(answer, 201) ? z.array(receiptSchema).parse(answer.json)[0] : undefined
  },
  async (caller, who, { chunks, size }) => {
    const tus = { 'tus-resumable': '1.0.0' }
    const begun = await caller.call(who, 'POST', '/api/v1/evidence/uploads', {
      headers: { ...tus, 'upload-length': String(size), 'upload-metadata': 'filename YS5jc3Y=' },
    })
    if (!isTaken(begun, 201)) return undefined
    const answer = await caller.call(who, 'PATCH', begun.headers['location'] ?? '', {
      body: Readable.from(chunks),
      headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' },
    })
    const jws = answer.headers['postern-receipt']
    if (!isTaken(answer, 204) || jws === undefined) return undefined
    return receiptSchema.parse({ ...decodeJwt(jws), jws })
  },
]

/** Where an evidence service keeps its bytes, with a look past it. */
async function openPlace(kind: StoreConfig['kind'], blobDirectory: string) {
  const bucket = kind === 's3' ? await startBucket() : undefined
  const config: StoreConfig =
    bucket === undefined ? { kind: 'directory', path: blobDirectory } : { kind: 's3', ...bucket.config }
  const stores = await openStores(config)
  return {
    blobs: stores.blobs,
    env: bucket?.env ?? {},
    /** All entries, and the names that rows may use. */
    list: async () => {
      const names = bucket === undefined ? await listFiles(blobDirectory) : await bucket.keys()
      return {
        places: names.flatMap((name) => (name.startsWith('blobs/') ? [name] : [])),
        bytes: names.flatMap((name) => (name.startsWith('data/') ? [name] : [])),
        others: names.filter((name) => !name.startsWith('blobs/') && !name.startsWith('data/')),
        begun: (await bucket?.begun()) ?? 0,
      }
    },
    close: async () => {
      stores.close()
      await bucket?.stop()
    },
  }
}

test.each(['directory', 's3'] as const)(
  'a service killed amid 20 uploads of every way into a %s leaves no half of one, no stray byte after a sweep, and every receipt true',
  async (kind) => {
    const { env: common, database, blobDirectory, caller } = await makeEnvironment()
    const place = await openPlace(kind, blobDirectory)
    const enough = kind === 's3' ? 3 : 6
    /** Chunks of those that are under way for certain when the service is killed. */
    const largest = 160
    // The largest stand still until the kill, however long the others take.
    const env = { ...common, ...place.env, POSTERN_BLOB_S3_TIMEOUT_MS: '30000', POSTERN_BODY_TIMEOUT_MS: '300000' }
    const owner = openTenantDb({
      connectionString: database.url('superuser'),
      maxConnections: 1,
      connectTimeoutMs: 60_000,
      queryTimeoutMs: 60_000,
      applicationName: 'evidence-test',
    })
    const tenants: Principal[] = Array.from({ length: 4 }, () => uploader())
    const given: Receipt[] = []
    const tenantOf = (index: number) => tenants[index % tenants.length] ?? uploader()

    const first = await spawnEvidence(env)
    const killed = Promise.withResolvers<void>()
    const waysGiven = new Set<number>()
    let isKilled = false
    const uploads = Array.from({ length: 20 }, async (_, index) => {
      const chunks = index < 14 ? 4 + index * 6 : largest
      const file = {
        chunks: chunksOf(chunks, chunks === largest ? killed.promise : undefined),
        size: chunks * chunkBytes,
      }
      try {
        const receipt = await ways[index % ways.length]?.(caller(first.url), tenantOf(index), file)
        if (receipt === undefined) return
        given.push(receipt)
        waysGiven.add(index % ways.length)
      } catch (error) {
        // Those that the kill cuts off have no answer.
        if (isKilled) return
        killed.reject(error)
      }
      if (isKilled || given.length < enough || waysGiven.size < ways.length) return
      isKilled = true
      first.kill('SIGKILL').then(killed.resolve, killed.reject)
    })
    await killed.promise
    await Promise.all(uploads)
    expect(given.length).toBeGreaterThanOrEqual(enough)

    // As if the day were over that a resumable upload may take: until then its bytes are no orphans.
    await owner.system(
      async (tx) =>
        await tx.execute({ text: `update evidence.upload set expires_at = now() - interval '1 second'`, values: [] }),
    )
    const second = await spawnEvidence({
      ...env,
      POSTERN_EVIDENCE_ABANDONED_AFTER_MS: '0',
      POSTERN_EVIDENCE_RESUMABLE_MS: '1000',
      POSTERN_EVIDENCE_SWEEP_MS: '1000',
    })
    try {
      const rows = await owner.system(
        async (tx) =>
          await tx.query<{ id: string; tenant_id: string; sha256: string; size_bytes: string; receipt_jws: string }>({
            text: 'select id, tenant_id, sha256, size_bytes, receipt_jws from evidence.file',
            values: [],
          }),
      )
      expect(rows.filter(({ size_bytes: size }) => Number(size) === largest * chunkBytes)).toEqual([])
      await vi.waitFor(
        async () => {
          // No tenant sends further requests.
          const { others, begun } = await place.list()
          expect([others, begun]).toEqual([[], 0])
        },
        { timeout: 30_000, interval: 200 },
      )
      const { places, bytes: data } = await place.list()
      const named = new Set(rows.map((row) => `${row.tenant_id} ${row.sha256}`))
      expect(places).toHaveLength(named.size)
      expect(data).toHaveLength(kind === 's3' ? named.size : 0)
      for (const { tenant_id: tenantId, sha256, size_bytes: size } of rows) {
        const hash = createHash('sha256')
        let length = 0
        for await (const chunk of await place.blobs.read({ tenantId, sha256 })) {
          hash.update(chunk)
          length += chunk.length
        }
        expect([length, hash.digest('hex')]).toEqual([Number(size), sha256])
      }

      const keys = await caller(second.url).call(
        { tenantId: '00000000-0000-0000-0000-000000000000', kind: 'service', id: 'gateway', label: '' },
        'GET',
        '/.well-known/jwks.json',
      )
      const published = createLocalJWKSet(JSON.parse(keys.text))
      for (const { jws, ...content } of given) {
        const { payload } = await compactVerify(jws, published)
        expect(JSON.parse(Buffer.from(payload).toString())).toEqual(content)
        expect(rows).toContainEqual(
          expect.objectContaining({ id: content.id, sha256: content.sha256, receipt_jws: jws }),
        )
      }
    } finally {
      await second.kill('SIGTERM')
      await owner.close()
      await place.close()
      await database.drop()
    }
  },
)
