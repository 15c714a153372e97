import { createHash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { receiptSchema } from '@postern/contracts'
import { type TestStack, makeTestFolder, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Upload } from 'tus-js-client'
import { request } from 'undici'
import { z } from 'zod'
import { type TestBucket, startBucket } from '../../services/evidence/test/object-store.ts'

const megabyte = 1024 * 1024
/** The growth of a process does not depend on the size and is smaller than this. `npm run test:upload` uses 2 GiB. */
const sizeMib = Number(process.env['POSTERN_TEST_UPLOAD_MIB'] ?? 96)
const growthMib = 64

const stores = ['directory', 'bucket'] as const
type Store = (typeof stores)[number]
const processes = {
  directory: ['gateway-1', 'evidence'],
  bucket: ['gateway-2', 'evidence-2'],
} as const satisfies Record<Store, readonly string[]>

let bucket: TestBucket
let stack: TestStack
let key: string
beforeAll(async () => {
  bucket = await startBucket()
  stack = await startTestStack({
    gateways: 2,
    twice: ['evidence'],
    route: async (from, to, url, second) => (from === 'gateway-2' && to === 'evidence' ? (second ?? url) : url),
  })
  await stack.restart('evidence-2', { ...bucket.env, POSTERN_BLOB_S3_TIMEOUT_MS: '60000' })
  ;({ key } = await stack.createKey(await stack.createTenant(), { scopes: ['write:evidence'] }))
}, 120_000)
afterAll(async () => {
  await stack.stop()
  await bucket.stop()
})

// Of all files the same, so that the stores keep one.
const chunk = randomBytes(megabyte)

/** A file that is nowhere whole, and what it hashes to once it was sent. */
function aFile(mib: number) {
  const hash = createHash('sha256')
  const produce = async function* () {
    for (let count = 0; count < mib; count += 1) {
      hash.update(chunk)
      yield chunk
    }
  }
  return { produce, size: mib * megabyte, digest: () => hash.digest('hex') }
}
type AFile = ReturnType<typeof aFile>

const received = z.object({ size_bytes: z.number(), sha256: z.string() })
type Received = z.infer<typeof received>

async function post(origin: string, target: string, contentType: string, body: Readable): Promise<Received> {
  const answer = await request(`${origin}${target}`, {
    method: 'POST',
    headers: { authorization: `ApiKey ${key}`, 'content-type': contentType },
    body,
    headersTimeout: 1_200_000,
  })
  const text = await answer.body.text()
  expect(answer.statusCode, text).toBe(201)
  const json: unknown = JSON.parse(text)
  return receiptSchema.parse(Array.isArray(json) ? json[0] : json)
}

const ways: Readonly<Record<string, (origin: string, file: AFile) => Promise<Received>>> = {
  'as the body': async (origin, { produce }) =>
    await post(origin, '/api/v1/evidence?file_name=large.bin', 'application/octet-stream', Readable.from(produce())),
  'in a form': async (origin, { produce }) => {
    const part = async function* () {
      yield Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\n')
      yield Buffer.from('Content-Type: application/octet-stream\r\n\r\n')
      yield* produce()
      yield Buffer.from('\r\n--b--\r\n')
    }
    return await post(origin, '/api/v1/evidence', 'multipart/form-data; boundary=b', Readable.from(part()))
  },
  'in pieces, by tus-js-client': async (origin, { produce, size }) => {
    const path = join(await makeTestFolder('large'), 'large.bin')
    await writeFile(path, produce())
    const answer = await new Promise<string | undefined>((resolve, reject) => {
      new Upload(createReadStream(path), {
        endpoint: `${origin}/api/v1/evidence/uploads`,
        headers: { authorization: `ApiKey ${key}` },
        metadata: { filename: 'large.bin' },
        uploadSize: size,
        chunkSize: 32 * megabyte,
        // Gibibytes take a bucket longer to put together than the gateway waits: who asks again is given the receipt.
        retryDelays: [100, ...Array.from({ length: 20 }, () => 1000)],
        onSuccess: ({ lastResponse }) => resolve(lastResponse.getHeader('postern-receipt')),
        onError: reject,
      }).start()
    })
    await rm(path)
    const [, payload = ''] = (answer ?? '').split('.')
    return received.parse(JSON.parse(Buffer.from(payload, 'base64url').toString()))
  },
}

/** Kilobytes of a line of /proc/<pid>/status, in MiB. */
async function statusOf(name: (typeof processes)[Store][number], line: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${stack.process(name).pid}/status`, 'utf8')
  return Number(new RegExp(`^${line}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024
}

describe.runIf(process.platform === 'linux').each(stores)('a file of %s', (store) => {
  const [gatewayName] = processes[store]
  let before: number[] = []
  const origin = () => stack.gateways[gatewayName === 'gateway-1' ? 0 : 1] ?? ''
  beforeAll(async () => {
    // One small file of each way first, which loads all code.
    for (const send of Object.values(ways)) await send(origin(), aFile(1))
    before = await Promise.all(processes[store].map((name) => statusOf(name, 'VmRSS')))
  }, 60_000)

  test.each(Object.keys(ways))(
    `${sizeMib} MiB that comes %s lets no process grow by more than ${growthMib} MiB`,
    { timeout: sizeMib > 256 ? 1_200_000 : 120_000 },
    async (way) => {
      // The largest that each was, from now on (proc(5), clear_refs).
      for (const name of processes[store]) await writeFile(`/proc/${stack.process(name).pid}/clear_refs`, '5')
      const file = aFile(sizeMib)
      const receipt = await ways[way]?.(origin(), file)
      const grown = await Promise.all(
        processes[store].map(async (name, index) => {
          const peak = await statusOf(name, 'VmHWM')
          return { name, growth: Math.round(peak - (before[index] ?? 0)) }
        }),
      )
      process.stdout.write(
        `${sizeMib} MiB ${way} into a ${store}: ${grown.map(({ name, growth }) => `${name} +${growth}`).join(', ')} MiB\n`,
      )
      expect(receipt).toMatchObject({ size_bytes: file.size, sha256: file.digest() })
      expect(grown.filter(({ growth }) => growth > growthMib)).toEqual([])
    },
  )
})
