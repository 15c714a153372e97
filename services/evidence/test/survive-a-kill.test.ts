import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { type Receipt, receiptSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { openTenantDb } from '@postern/tenant-db'
import { compactVerify, createLocalJWKSet } from 'jose'
import { expect, test } from 'vitest'
import { openStores } from '../src/blob/open-stores.ts'
import type { StoreConfig } from '../src/store-config.ts'
import { startBucket } from './object-store.ts'
import { listFiles, makeEnvironment, spawnEvidence, upload, uploaded, uploader } from './support.ts'

const chunkBytes = 64 * 1024

/** A body of so many random chunks, none of which is there before the one before was taken. */
function bodyOf(chunks: number): Readable {
  return Readable.from(
    (async function* produce() {
      for (let count = 0; count < chunks; count += 1) yield randomBytes(chunkBytes)
    })(),
  )
}

/** Where an evidence service keeps its bytes, with a look past it. */
async function openPlace(kind: StoreConfig['kind'], blobDirectory: string) {
  const bucket = kind === 's3' ? await startBucket() : undefined
  const config: StoreConfig =
    bucket === undefined ? { kind: 'directory', path: blobDirectory } : { kind: 's3', ...bucket.config }
  const stores = await openStores(config)
  return {
    blobs: stores.blobs,
    env: bucket?.env ?? {},
    /** All that is there, and the places that rows may name, of which each of the others belongs to one. */
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
  'a service killed amid 20 uploads into a %s leaves no half of one, no stray byte after a sweep, and every receipt true',
  async (kind) => {
    const { env: common, database, blobDirectory, caller } = await makeEnvironment()
    const place = await openPlace(kind, blobDirectory)
    const enough = kind === 's3' ? 3 : 6
    const env = { ...common, ...place.env, POSTERN_BLOB_S3_TIMEOUT_MS: '30000' }
    const owner = openTenantDb({
      connectionString: database.url('superuser'),
      maxConnections: 1,
      connectTimeoutMs: 2000,
      queryTimeoutMs: 5000,
      applicationName: 'evidence-test',
    })
    const tenants: Principal[] = Array.from({ length: 4 }, () => uploader())
    const given: Receipt[] = []
    const tenantOf = (index: number) => tenants[index % tenants.length] ?? uploader()

    const first = await spawnEvidence(env)
    const killed = new Promise<void>((resolve, reject) => {
      const onReceipt = (receipt: Receipt) => {
        given.push(receipt)
        if (given.length === enough) first.kill('SIGKILL').then(resolve, reject)
      }
      for (let index = 0; index < 20; index += 1) {
        const options = { body: bodyOf(index < 14 ? 4 + index * 6 : 160), headers: { 'content-type': 'text/csv' } }
        // Those that the kill cuts off have no answer.
        upload(caller(first.url), tenantOf(index), options).then(
          ({ status, json }) => {
            // A store that is slow with so many at once may let some of them wait too long: a 503, and no receipt.
            if (status !== 503) onReceipt(receiptSchema.parse(json))
          },
          () => undefined,
        )
      }
    })
    await killed
    expect(given.length).toBeGreaterThanOrEqual(enough)
    expect(given.length).toBeLessThan(20)

    const second = await spawnEvidence({ ...env, POSTERN_EVIDENCE_ABANDONED_AFTER_MS: '0' })
    try {
      for (const tenant of tenants) given.push(await uploaded(caller(second.url), tenant, randomBytes(10)))
      const rows = await owner.system(
        async (tx) =>
          await tx.query<{ id: string; tenant_id: string; sha256: string; size_bytes: string; receipt_jws: string }>({
            text: 'select id, tenant_id, sha256, size_bytes, receipt_jws from evidence.file',
            values: [],
          }),
      )
      const { places, bytes: data, others, begun } = await place.list()
      expect([others, begun]).toEqual([[], 0])
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
