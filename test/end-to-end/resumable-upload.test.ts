import { type ChildProcess, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { type TestStack, findFreePort, startTestStack } from '@postern/local-stack/testing'
import { compactVerify, createLocalJWKSet } from 'jose'
import { type HttpResponse, Upload, type UploadOptions } from 'tus-js-client'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { send } from '../support/http.ts'
import { hasProcesses } from '../support/on-containers.ts'

let stack: TestStack
let gateway: string
let replicaPort: number
let replica: ChildProcess | undefined

beforeAll(async () => {
  replicaPort = await findFreePort()
  stack = await startTestStack({
    gateways: 2,
    // The second gateway sends uploads to another process of the evidence service.
    route: async (from, to, url) =>
      from === 'gateway-2' && to === 'evidence' ? `http://127.0.0.1:${replicaPort}` : url,
  })
  gateway = stack.gateways[0] ?? ''
})
afterAll(async () => {
  replica?.kill('SIGKILL')
  await stack.stop()
})

/** A second process of the evidence service, with the environment of the first: the same database and the same store. */
async function startReplica(): Promise<void> {
  const { pid } = stack.process('evidence')
  const [environment, command] = await Promise.all([
    readFile(`/proc/${pid}/environ`, 'utf8'),
    readFile(`/proc/${pid}/cmdline`, 'utf8'),
  ])
  const env = Object.fromEntries(environment.split('\0').map((pair) => pair.split(/=(.*)/s).slice(0, 2)))
  const [program = '', ...args] = command.split('\0').slice(0, -1)
  replica = spawn(program, args, {
    env: { ...env, POSTERN_PORT: String(replicaPort) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (replica.stdout === null) throw new Error('the second process has no output')
  for await (const line of createInterface({ input: replica.stdout })) {
    if (line.includes('"event":"listening"')) break
  }
  replica.stdout.resume()
}

const atOther = (url: string) => `${stack.gateways[1]}${new URL(url).pathname}`

const megabyte = 1024 * 1024
const endpoint = () => `${gateway}/api/v1/evidence/uploads`

/** Uploads a file with tus-js-client and returns the last response. */
async function finish(file: Buffer, options: UploadOptions): Promise<HttpResponse> {
  return await new Promise((resolve, reject) => {
    new Upload(file, {
      // Long enough for a container to be started again.
      retryDelays: [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600],
      ...options,
      onSuccess: ({ lastResponse }) => resolve(lastResponse),
      onError: reject,
    }).start()
  })
}

/** Uploads until more than `bytes` were sent, cuts the connection, and returns the URL of the upload. */
async function cutAfter(
  bytes: number,
  file: Buffer,
  { onBeforeCut, ...options }: UploadOptions & { readonly onBeforeCut?: () => void },
): Promise<string> {
  return await new Promise((resolve, reject) => {
    const upload = new Upload(file, {
      ...options,
      // A first piece, so that something is sure to have arrived, and a second one that is cut.
      chunkSize: 4 * megabyte,
      onError: reject,
      onProgress: (sent) => {
        if (sent <= bytes || upload.url === null) return
        const { url } = upload
        onBeforeCut?.()
        upload.abort().then(() => resolve(url), reject)
      },
    })
    upload.start()
  })
}

async function arrived(url: string, authorization: string): Promise<number> {
  const { origin, pathname } = new URL(url)
  const headers = { authorization, 'tus-resumable': '1.0.0' }
  const answer = await vi.waitFor(
    async () => {
      const said = await send(origin, pathname, { method: 'HEAD', headers })
      expect(said.status).toBe(200)
      return said
    },
    { timeout: 60_000, interval: 100 },
  )
  return Number(answer.headers['upload-offset'])
}

describe('tus-js-client through a gateway', () => {
  test('resumes after a lost connection and a killed service, and gets a receipt for exactly its bytes', async () => {
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

  test('resumes by itself if the service is killed', async () => {
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

  test.runIf(hasProcesses)(
    'goes on at another process of the service, and what the first one still writes changes nothing',
    async () => {
      await startReplica()
      const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['write:evidence'] })
      const file = randomBytes(24 * megabyte)
      const options = {
        endpoint: endpoint(),
        headers: { authorization: `ApiKey ${key}` },
        metadata: { filename: 'ledger.bin' },
      }
      const first = stack.process('evidence')
      // Frozen amid the second piece, so that it knows nothing of the cut and still holds its turn.
      const url = await cutAfter(6 * megabyte, file, { ...options, onBeforeCut: () => first.kill('SIGSTOP') })
      const offset = await arrived(atOther(url), options.headers.authorization)
      expect(offset).toBeGreaterThanOrEqual(4 * megabyte)
      const finished = finish(file, { ...options, chunkSize: 4 * megabyte, uploadUrl: atOther(url) })
      first.kill('SIGCONT')
      const answer = await finished
      const [, payload = ''] = (answer.getHeader('postern-receipt') ?? '').split('.')
      expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toMatchObject({
        size_bytes: file.length,
        sha256: createHash('sha256').update(file).digest('hex'),
      })
      // Both processes report the same state.
      expect(await arrived(url, options.headers.authorization)).toBe(file.length)
      if (replica === undefined) throw new Error('there is no second process')
      const ended = once(replica, 'exit')
      replica.kill('SIGTERM')
      await ended
    },
  )

  test('is rejected without the scope', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['read:findings'] })
    const headers = { authorization: `ApiKey ${key}` }
    const refused = finish(randomBytes(10), { endpoint: endpoint(), headers, metadata: { filename: 'a' } })
    await expect(refused).rejects.toThrow('response code: 403')
  })
})

const tus = { 'tus-resumable': '1.0.0' }

/** A request that says with POST which method it means. */
async function override(meant: string, url: string, headers: Record<string, string>, body?: string): Promise<Response> {
  const all = { ...tus, ...headers, 'x-http-method-override': meant }
  return await fetch(url, { method: 'POST', headers: all, ...(body === undefined ? {} : { body }) })
}

async function begin(key: string, length: number): Promise<string> {
  const headers = { ...tus, 'upload-length': String(length), 'upload-metadata': 'filename YS50eHQ=' }
  const answer = await fetch(endpoint(), { method: 'POST', headers: { ...headers, authorization: `ApiKey ${key}` } })
  expect(answer.status).toBe(201)
  return `${gateway}${answer.headers.get('location')}`
}

describe('a client that asks for the supported features', () => {
  test.each(['', '/019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'])(
    'is told so without credentials at uploads%s',
    async (more) => {
      const answer = await fetch(endpoint() + more, { method: 'OPTIONS' })
      expect(answer.status).toBe(204)
      expect(Object.fromEntries(answer.headers)).toMatchObject({
        'tus-resumable': '1.0.0',
        'tus-version': '1.0.0',
        'tus-extension': 'creation,termination,checksum,expiration',
        'tus-max-size': expect.stringMatching(/^[1-9]\d+$/),
      })
    },
  )

  test.each(['/api/v1/findings', '/api/v1/evidence', '/api/v1/evidence/uploads/', '/api/v1/nothing'])(
    'is told nothing without credentials at %s',
    async (path) => {
      expect((await fetch(gateway + path, { method: 'OPTIONS' })).status).toBe(401)
    },
  )
})

describe('a client that cannot send PATCH, HEAD or DELETE', () => {
  test('uploads, queries and cancels with POST and X-HTTP-Method-Override', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['write:evidence'] })
    const authorization = `ApiKey ${key}`
    const url = await begin(key, 10)
    const piece = { authorization, 'content-type': 'application/offset+octet-stream' }
    const first = await override('PATCH', url, { ...piece, 'upload-offset': '0' }, '12345')
    expect([first.status, first.headers.get('upload-offset')]).toEqual([204, '5'])
    const asked = await override('HEAD', url, { authorization })
    expect([asked.status, asked.headers.get('upload-offset'), await asked.text()]).toEqual([200, '5', ''])
    const last = await override('PATCH', url, { ...piece, 'upload-offset': '5' }, '67890')
    expect([last.status, last.headers.has('postern-receipt')]).toEqual([204, true])

    const other = await begin(key, 10)
    expect((await override('DELETE', other, { authorization })).status).toBe(204)
    // Of an answer to HEAD there is no body, whatever length it speaks of.
    const gone = await override('HEAD', other, { authorization })
    expect([gone.status, await gone.text()]).toEqual([404, ''])
    expect((await override('OPTIONS', endpoint(), {})).status).toBe(204)
  })

  test('needs the scope of the overriding method', async () => {
    const tenant = await stack.createTenant()
    const { key } = await stack.createKey(tenant, { scopes: ['write:evidence'] })
    const { key: reader } = await stack.createKey(tenant, { scopes: ['read:findings'] })
    const url = await begin(key, 10)
    for (const method of ['PATCH', 'HEAD', 'DELETE']) {
      const refused = await override(method, url, { authorization: `ApiKey ${reader}` })
      expect([method, refused.status]).toEqual([method, 403])
      expect((await override(method, url, {})).status).toBe(401)
    }
    expect(await arrived(url, `ApiKey ${key}`)).toBe(0)
  })

  test.each(['GET', 'PUT', 'patch', 'BREW', ''])(
    'is refused where it means %s, and nothing is created',
    async (method) => {
      const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['write:evidence'] })
      const headers = { authorization: `ApiKey ${key}`, 'upload-length': '10', 'upload-metadata': 'filename YS50eHQ=' }
      expect((await override(method, endpoint(), headers)).status).toBe(405)
      expect((await override(method, await begin(key, 10), headers)).status).toBe(405)
    },
  )

  test('has no effect on other routes', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['*'] })
    const headers = { authorization: `ApiKey ${key}`, 'content-type': 'application/json' }
    const created = await override('DELETE', `${gateway}/api/v1/findings`, headers, '{}')
    expect(created.status).toBe(422)
    const nothing = await override('DELETE', `${gateway}/api/v1/findings/019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001`, headers)
    expect(nothing.status).toBe(405)
    const publicly = await override(
      'OPTIONS',
      `${gateway}/api/v1/findings`,
      { 'content-type': 'application/json' },
      '{}',
    )
    expect(publicly.status).toBe(401)
  })
})
