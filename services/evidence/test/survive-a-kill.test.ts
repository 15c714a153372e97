import { createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { type Receipt, receiptSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { openTenantDb } from '@postern/tenant-db'
import { compactVerify, createLocalJWKSet } from 'jose'
import { expect, test } from 'vitest'
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

test('a service killed amid 20 uploads leaves no half of one, no stray byte after a sweep, and every receipt true', async () => {
  const { env, database, blobDirectory, caller } = await makeEnvironment()
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
      if (given.length === 6) first.kill('SIGKILL').then(resolve, reject)
    }
    for (let index = 0; index < 20; index += 1) {
      const options = { body: bodyOf(4 + index * 6), headers: { 'content-type': 'text/csv' } }
      // Those that the kill cuts off have no answer.
      upload(caller(first.url), tenantOf(index), options).then(
        ({ json }) => onReceipt(receiptSchema.parse(json)),
        () => undefined,
      )
    }
  })
  await killed
  expect(given.length).toBeGreaterThanOrEqual(6)
  expect(given.length).toBeLessThan(20)

  const second = await spawnEvidence({ ...env, POSTERN_EVIDENCE_ABANDONED_AFTER_MS: '0' })
  try {
    for (const tenant of tenants) given.push(await uploaded(caller(second.url), tenant, randomBytes(10)))
    expect(await listFiles(join(blobDirectory, 'incoming'))).toEqual([])
    expect(await listFiles(join(blobDirectory, 'settling'))).toEqual([])

    const rows = await owner.system(
      async (tx) =>
        await tx.query<{ id: string; tenant_id: string; sha256: string; size_bytes: string; receipt_jws: string }>({
          text: 'select id, tenant_id, sha256, size_bytes, receipt_jws from evidence.file',
          values: [],
        }),
    )
    const blobs = await listFiles(join(blobDirectory, 'blobs'))
    expect(blobs).toEqual(
      rows.map(({ tenant_id: tenant, sha256 }) => join(tenant, sha256.slice(0, 2), sha256)).toSorted(),
    )
    for (const { tenant_id: tenant, sha256, size_bytes: size } of rows) {
      const bytes = await readFile(join(blobDirectory, 'blobs', tenant, sha256.slice(0, 2), sha256))
      expect([bytes.length, createHash('sha256').update(bytes).digest('hex')]).toEqual([Number(size), sha256])
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
      expect(rows).toContainEqual(expect.objectContaining({ id: content.id, sha256: content.sha256, receipt_jws: jws }))
    }
  } finally {
    await second.kill('SIGTERM')
    await owner.close()
    await database.drop()
  }
})
