/**
 * @promise Operation: The object store of the compose file keeps what it acknowledged, also after kill -9.
 * @alsoShownBy npm run test:containers
 */

import { randomBytes } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import { type TestObjectStore, startTestObjectStore } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const bucket = 'postern-evidence'
const clients: S3Client[] = []
let store: TestObjectStore
let first: S3Client

beforeAll(async () => {
  store = await startTestObjectStore({ bucket })
  first = clientOf(store.accessKeyId, store.secretAccessKey)
})
afterAll(async () => {
  for (const client of clients) client.destroy()
  await store.stop()
})

function clientOf(accessKeyId: string, secretAccessKey: string): S3Client {
  const { endpoint, region } = store
  const credentials = { accessKeyId, secretAccessKey }
  const client = new S3Client({ endpoint, region, credentials, forcePathStyle: true, maxAttempts: 1 })
  clients.push(client)
  return client
}

/** Whether the store accepts the credentials. */
async function isAccepted(client: S3Client): Promise<boolean> {
  return await client.send(new HeadBucketCommand({ Bucket: bucket })).then(
    () => true,
    () => false,
  )
}

async function put(client: S3Client, key: string, text: string): Promise<void> {
  await client.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: text }))
}

async function read(client: S3Client, key: string): Promise<string> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }))
  return (await Body?.transformToString()) ?? ''
}

async function keys(client: S3Client, prefix: string): Promise<string[]> {
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix }))
  return Contents.map(({ Key = '' }) => Key)
}

describe('the store of the compose file', () => {
  test('has its bucket when it has started, and requires the key', async () => {
    expect(await isAccepted(first)).toBe(true)
    expect(await isAccepted(clientOf(store.accessKeyId, 'x'.repeat(43)))).toBe(false)
    await put(first, 'private', 'of a tenant')
    const answer = await fetch(`${store.endpoint}/${bucket}/private`)
    expect(answer.status).toBeGreaterThanOrEqual(400)
    expect(await answer.text()).not.toContain('of a tenant')
    await expect(
      clientOf('other:evidence', 'x'.repeat(43)).send(new CreateBucketCommand({ Bucket: 'another' })),
    ).rejects.toMatchObject({ $metadata: { httpStatusCode: 403 } })
  })

  test('has all confirmed names and bytes after it was killed', async () => {
    const answered = new Set<string>()
    const writers = Array.from({ length: 4 }, async (_none, writer) => {
      for (let count = 0; count < 1000; count += 1) {
        const key = `kill/${writer}/${count}`
        try {
          await put(first, key, key)
        } catch {
          return
        }
        answered.add(key)
        if (answered.size === 12) store.kill('SIGKILL')
      }
    })
    await Promise.all(writers)
    await store.start()
    expect(answered.size).toBeGreaterThanOrEqual(12)
    const found = await keys(first, 'kill/')
    expect([...answered].filter((key) => !found.includes(key))).toEqual([])
    for (const key of answered) expect(await read(first, key)).toBe(key)
  })

  test('sends no body where HTTP forbids one, so that the connection stays usable', async () => {
    const { hostname, port } = new URL(store.endpoint)
    const socket = connect(Number(port), hostname)
    let text = ''
    socket.setEncoding('latin1').on('data', (data: string) => (text += data))
    socket.write(`HEAD /${bucket}/nothing HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`)
    await expect.poll(() => text).toContain('\r\n\r\n')
    socket.write(`GET /healthcheck HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`)
    await expect.poll(() => text).toMatch(/OK$/)
    const [head, ...rest] = text.split('\r\n\r\n')
    expect([head?.slice(0, 13), rest[0]?.slice(0, 13)]).toEqual(['HTTP/1.1 400 ', 'HTTP/1.1 200 '])
    socket.destroy()
  })

  test('replaces its access key without a restart and without rejected requests', async () => {
    const [id, secret] = ['postern:evidence-b', randomBytes(32).toString('base64url')]
    const second = clientOf(id, secret)
    await put(first, 'rotated', 'by the first')
    expect(await isAccepted(second)).toBe(false)
    let refused = 0
    let stopped = false
    const asking = (async () => {
      while (!stopped) if (!(await isAccepted(first))) refused += 1
    })()
    await store.replaceUsers({ [store.accessKeyId]: store.secretAccessKey, [id]: secret })
    await expect.poll(async () => await isAccepted(second), { timeout: 30_000 }).toBe(true)
    stopped = true
    await asking
    expect(refused).toBe(0)
    expect(await read(second, 'rotated')).toBe('by the first')
    await store.replaceUsers({ [id]: secret })
    await expect.poll(async () => await isAccepted(first), { timeout: 30_000 }).toBe(false)
    await put(second, 'rotated', 'by the second')
    expect(await read(second, 'rotated')).toBe('by the second')
  })

  test('keeps its keys if the file has none', async () => {
    const [id, secret] = ['postern:evidence-c', randomBytes(32).toString('base64url')]
    await store.replaceUsers({ [id]: secret })
    const other = clientOf(id, secret)
    await expect.poll(async () => await isAccepted(other), { timeout: 30_000 }).toBe(true)
    await store.replaceUsers({})
    await expect
      .poll(async () => await readFile(store.logFile, 'utf8'), { timeout: 30_000 })
      .toContain('the users could not be reloaded')
    expect(await readFile(store.logFile, 'utf8')).not.toContain(secret)
    expect(await read(other, 'rotated')).toBe('by the second')
  })
})

test('a deleted object leaves no trace, neither its name nor a tombstone', async () => {
  const own = await startTestObjectStore({ bucket, forgetAfterS: 1 })
  const { endpoint, region, accessKeyId, secretAccessKey } = own
  const client = new S3Client({
    endpoint,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
  })
  try {
    const [kept, gone] = [`kept-${randomBytes(8).toString('hex')}`, `gone-${randomBytes(8).toString('hex')}`]
    for (const key of [kept, gone]) await put(client, key, key)
    expect([await traces(own.data, kept), await traces(own.data, gone)]).toEqual([2, 2])
    await client.send(new DeleteObjectCommand({ Bucket: bucket, Key: gone }))
    await expect.poll(async () => await traces(own.data, gone), { timeout: 30_000 }).toBe(0)
    await expect
      .poll(async () => (await filesBelow(own.data)).filter((path) => path.endsWith('.ts')), { timeout: 30_000 })
      .toEqual([])
    expect(await read(client, kept)).toBe(kept)
    expect(await keys(client, '')).toEqual([kept])
  } finally {
    client.destroy()
    await own.stop()
  }
})

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.flatMap((entry) => (entry.isFile() ? [join(entry.parentPath, entry.name)] : []))
}

/** Files below a folder that hold the text. */
async function traces(folder: string, text: string): Promise<number> {
  const paths = await filesBelow(folder)
  // One may go between the list and the look.
  const found = await Promise.all(paths.map(async (path) => (await readFile(path).catch(() => '')).includes(text)))
  return found.filter(Boolean).length
}
