import { createHash, randomBytes } from 'node:crypto'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { compactVerify, createLocalJWKSet } from 'jose'
import { type HttpResponse, Upload, type UploadOptions } from 'tus-js-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { send } from '../support/http.ts'

let stack: TestStack
let gateway: string

beforeAll(async () => {
  stack = await startTestStack()
  gateway = stack.gateways[0] ?? ''
})
afterAll(async () => await stack.stop())

const megabyte = 1024 * 1024
const endpoint = () => `${gateway}/api/v1/evidence/uploads`

/** Uploads to the end, as a program with tus-js-client does; gives the answer to the last request. */
async function finish(file: Buffer, options: UploadOptions): Promise<HttpResponse> {
  return await new Promise((resolve, reject) => {
    new Upload(file, {
      retryDelays: [100, 200, 400, 800, 1600],
      ...options,
      onSuccess: ({ lastResponse }) => resolve(lastResponse),
      onError: reject,
    }).start()
  })
}

/** Uploads until more than `bytes` have left, and cuts the connection; gives the URL of the upload. */
async function cutAfter(bytes: number, file: Buffer, options: UploadOptions): Promise<string> {
  return await new Promise((resolve, reject) => {
    const upload = new Upload(file, {
      ...options,
      // A first piece, so that something is sure to have arrived, and a second one that is cut.
      chunkSize: 4 * megabyte,
      onError: reject,
      onProgress: (sent) => {
        if (sent <= bytes || upload.url === null) return
        const { url } = upload
        upload.abort().then(() => resolve(url), reject)
      },
    })
    upload.start()
  })
}

async function arrived(url: string, authorization: string): Promise<number> {
  const target = new URL(url).pathname
  const headers = { authorization, 'tus-resumable': '1.0.0' }
  const answer = await send(gateway, target, { method: 'HEAD', headers })
  expect(answer.status).toBe(200)
  return Number(answer.headers['upload-offset'])
}

describe('tus-js-client through a gateway', () => {
  test('goes on after the connection was cut and the service was killed, and gets a receipt of exactly its bytes', async () => {
    const tenant = await stack.createTenant()
    const { key } = await stack.createKey(tenant, { scopes: ['write:evidence'] })
    const file = randomBytes(24 * megabyte)
    const options = {
      endpoint: endpoint(),
      headers: { authorization: `ApiKey ${key}` },
      metadata: { filename: 'ledger.bin', filetype: 'application/octet-stream' },
    }
    const url = await cutAfter(6 * megabyte, file, options)
    stack.process('evidence').kill('SIGKILL')
    await stack.restart('evidence')
    const offset = await arrived(url, options.headers.authorization)
    expect(offset).toBeGreaterThanOrEqual(4 * megabyte)
    expect(offset).toBeLessThan(file.length)

    const sentFrom: number[] = []
    const answer = await finish(file, {
      ...options,
      uploadUrl: url,
      onBeforeRequest: (request) => {
        const from = request.getHeader('Upload-Offset')
        if (request.getMethod() === 'PATCH' && from !== undefined) sentFrom.push(Number(from))
      },
    })
    expect(sentFrom).toEqual([offset])
    const keys = await send(gateway, '/.well-known/jwks.json')
    const { payload } = await compactVerify(
      answer.getHeader('postern-receipt') ?? '',
      createLocalJWKSet(JSON.parse(keys.text)),
    )
    expect(JSON.parse(Buffer.from(payload).toString())).toMatchObject({
      file_name: 'ledger.bin',
      size_bytes: file.length,
      sha256: createHash('sha256').update(file).digest('hex'),
    })
  })

  test('goes on by itself when the service is killed under it', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['write:evidence'] })
    const file = randomBytes(24 * megabyte)
    let restarted: Promise<void> | undefined
    const answer = await finish(file, {
      endpoint: endpoint(),
      headers: { authorization: `ApiKey ${key}` },
      metadata: { filename: 'ledger.bin' },
      chunkSize: 4 * megabyte,
      onChunkComplete: () => {
        if (restarted !== undefined) return
        stack.process('evidence').kill('SIGKILL')
        restarted = stack.restart('evidence')
      },
    })
    await restarted
    const [, payload = ''] = (answer.getHeader('postern-receipt') ?? '').split('.')
    expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toMatchObject({
      sha256: createHash('sha256').update(file).digest('hex'),
    })
  })

  test('is refused without the scope', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['read:findings'] })
    const headers = { authorization: `ApiKey ${key}` }
    const refused = finish(randomBytes(10), { endpoint: endpoint(), headers, metadata: { filename: 'a' } })
    await expect(refused).rejects.toThrow('response code: 403')
  })
})
