import { createHash, randomBytes } from 'node:crypto'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { GetObjectCommand, ListObjectsV2Command, NoSuchKey, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { receiptSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import { type TestObjectStore, startTestObjectStore } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'
import { type System, asOperator, cleanUp, idSchema, keySchema, migrateAfterRestore, newHome } from './system.ts'
import { start, stop, takeBaseBackup } from './system.ts'

const bucket = 'evidence'
const stores: TestObjectStore[] = []
let issuer: RunningIssuer

beforeAll(async () => {
  issuer = await startIssuer()
})

afterAll(async () => {
  await cleanUp()
  for (const store of stores) await store.stop()
  await issuer.stop()
}, 120_000)

/** A store, a look past the service into its bucket, and the settings of a service that keeps its evidence there. */
async function openStore() {
  const store = await startTestObjectStore({ bucket })
  stores.push(store)
  const { endpoint, region, accessKeyId, secretAccessKey } = store
  const client = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  })
  return {
    client,
    list: async (prefix = ''): Promise<string[]> => {
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix }))
      return Contents.map(({ Key = '' }) => Key)
    },
    env: {
      POSTERN_OIDC_ISSUER: issuer.url,
      POSTERN_BLOB_DIRECTORY: '',
      POSTERN_BLOB_S3_BUCKET: bucket,
      POSTERN_BLOB_S3_ENDPOINT: endpoint,
      POSTERN_BLOB_S3_ACCESS_KEY_ID: accessKeyId,
      POSTERN_BLOB_S3_SECRET_ACCESS_KEY: secretAccessKey,
      POSTERN_BLOB_S3_PATH_STYLE: 'on',
      POSTERN_BLOB_S3_CHECKSUMS: 'off',
    },
  }
}
type Store = Awaited<ReturnType<typeof openStore>>

/** Notes of uploads under way: they come and go, and a copy need not have them. */
const passing = /^settling\//

/** Copies each object with its name, as any S3 program does. */
async function copyBucket(from: Store, into: Store): Promise<void> {
  for (const Key of await from.list()) {
    const read = from.client.send(new GetObjectCommand({ Bucket: bucket, Key }))
    const found = await read.catch((error: unknown) => {
      if (error instanceof NoSuchKey && passing.test(Key)) return undefined
      throw error
    })
    if (found === undefined) continue
    const { Body } = found
    const bytes = (await Body?.transformToByteArray()) ?? new Uint8Array()
    await into.client.send(new PutObjectCommand({ Bucket: bucket, Key, Body: bytes }))
  }
}

const hashOf = (content: Buffer): string => createHash('sha256').update(content).digest('hex')

async function upload({ gateway }: System, key: string, content: Buffer): Promise<string> {
  const answer = await send(gateway, '/api/v1/evidence?file_name=a.bin', {
    key,
    method: 'POST',
    headers: { 'content-type': 'application/octet-stream' },
    body: content,
  })
  const receipt = receiptSchema.parse(answer.json)
  expect(receipt.sha256).toBe(hashOf(content))
  return receipt.id
}

test('evidence is readable after its database and then its bucket were backed up and restored elsewhere', async () => {
  const [store, other] = [await openStore(), await openStore()]
  const before = await start(await newHome(), store.env)
  const call = asOperator(before)
  const tenant = idSchema.parse(await call(internalPaths.tenants, { slug: 'own', name: 'Own' }))
  const input = { label: 'x', scopes: ['*'], expires_in: '30d' }
  const { key } = keySchema.parse(await call('/api/v1/api-keys', input, tenant.id))
  // One of a single object, one of several parts.
  const contents = [Buffer.from('What the committee has seen.'), randomBytes(17 * 1024 * 1024)]
  const ids: string[] = []
  for (const content of contents) ids.push(await upload(before, key, content))

  const home = await newHome()
  await takeBaseBackup(before, home)
  const late = Buffer.from('Brought after the database was backed up, and before the bucket was.')
  const lateId = await upload(before, key, late)
  await copyBucket(store, other)
  await cp(join(before.home, 'secrets'), join(home, 'secrets'), { recursive: true })
  await stop(before)
  await stores[0]?.stop()

  const after = await start(home, other.env)
  await migrateAfterRestore(home, after.superuser)
  const authorization = `Bearer ${await issuer.issue({ tenantId: tenant.id, roles: ['auditor'] })}`
  for (const [index, content] of contents.entries()) {
    const read = await send(after.gateway, `/api/v1/evidence-files/${ids[index]}/content`, {
      headers: { authorization },
    })
    expect(read.status).toBe(200)
    expect(read.headers['content-digest']).toBe(`sha-256=:${Buffer.from(hashOf(content), 'hex').toString('base64')}:`)
  }
  // Its row was lost with what came after the backup: whoever holds the receipt brings the bytes again.
  const missing = await send(after.gateway, `/api/v1/evidence-files/${lateId}/content`, { headers: { authorization } })
  expect(missing.status).toBe(404)
  const again = await upload(after, key, late)
  const found = await send(after.gateway, `/api/v1/evidence-files/${again}/content`, { headers: { authorization } })
  expect(found.text).toBe(late.toString())
  await stop(after)
}, 240_000)
