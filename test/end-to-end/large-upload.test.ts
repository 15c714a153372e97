/**
 * @promise Operation: Files of any size stream through; no process holds them in memory.
 * @alsoShownBy test/end-to-end/large-uploads.test.ts, npm run test:upload
 */

import { createHash, randomBytes } from 'node:crypto'
import { readFile, readdir, readlink } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { type Receipt, type Role, custodyEventSchema, evidenceFileSchema, receiptSchema } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { request } from 'undici'
import { z } from 'zod'
import { send as sendSmall } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'
import { hasProcesses } from '../support/on-containers.ts'

const megabyte = 1024 * 1024
/** The growth of a process does not depend on the size. `npm run test:upload` uses 2 GiB. */
const sizeMib = Number(process.env['POSTERN_TEST_UPLOAD_MIB'] ?? 256)
const growthMib = 64
const names = ['gateway-1', 'evidence'] as const

let stack: TestStack
let issuer: RunningIssuer
let gateway: string
beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({ env: { POSTERN_OIDC_ISSUER: issuer.url } })
  gateway = stack.gateways[0] ?? ''
})
afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

const contentOf = ({ id }: Pick<Receipt, 'id'>) => `/api/v1/evidence-files/${id}/content`

/** A person of the tenant, as a header. */
async function signIn(tenantId: string, role: Role): Promise<{ authorization: string }> {
  return { authorization: `Bearer ${await issuer.issue({ tenantId, roles: [role] })}` }
}

/** Files of the store that the evidence service has open, and how far it has read each. */
async function openBlobs(): Promise<number[]> {
  const { pid } = stack.process('evidence')
  const found: number[] = []
  for (const fd of await readdir(`/proc/${pid}/fd`)) {
    // A file may be closed after it was listed.
    const path = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')
    if (!path.includes('/blobs/')) continue
    const info = await readFile(`/proc/${pid}/fdinfo/${fd}`, 'utf8').catch(() => '')
    found.push(Number(/^pos:\s+(\d+)/m.exec(info)?.[1]))
  }
  return found
}

test('only an auditor, who is recorded in its custody, can read an upload; keys cannot', async () => {
  const tenant = await stack.createTenant()
  const { key } = await stack.createKey(tenant, { scopes: ['*'] })
  const headers = { 'content-type': 'text/csv' }
  const sent = { key, method: 'POST', body: 'user;right\n', headers } as const
  const receipt = receiptSchema.parse(
    (await sendSmall(gateway, '/api/v1/evidence?file_name=r%C3%A9sum%C3%A9.csv', sent)).json,
  )
  for (const method of ['GET', 'HEAD'] as const) {
    expect((await sendSmall(gateway, contentOf(receipt), { key, method })).status).toBe(403)
  }
  expect(await sendSmall(gateway, contentOf(receipt), { key })).toMatchObject({ code: 'role_required' })
  const viewer = await signIn(tenant.id, 'viewer')
  expect((await sendSmall(gateway, contentOf(receipt), { headers: viewer })).status).toBe(403)
  const stranger = await signIn((await stack.createTenant()).id, 'admin')
  expect((await sendSmall(gateway, contentOf(receipt), { headers: stranger })).status).toBe(404)

  const auditor = await signIn(tenant.id, 'auditor')
  const listed = await sendSmall(gateway, '/api/v1/evidence-files', { headers: auditor })
  expect(
    z
      .array(evidenceFileSchema)
      .parse(listed.json)
      .map(({ id }) => id),
  ).toEqual([receipt.id])
  const read = await sendSmall(gateway, contentOf(receipt), { headers: auditor })
  expect(read).toMatchObject({
    status: 200,
    text: 'user;right\n',
    headers: {
      'content-disposition': `attachment; filename="r_sum_.csv"; filename*=UTF-8''r%C3%A9sum%C3%A9.csv`,
      'content-digest': `sha-256=:${Buffer.from(receipt.sha256, 'hex').toString('base64')}:`,
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    },
  })
  const admin = await signIn(tenant.id, 'admin')
  const custody = await sendSmall(gateway, `/api/v1/evidence-files/${receipt.id}/custody`, { headers: admin })
  const views = z
    .array(custodyEventSchema)
    .parse(custody.json)
    .filter(({ kind }) => kind === 'viewed')
  expect(views).toMatchObject([
    { actor: { type: 'user', label: 'Ada Auditor' }, request_id: read.headers['x-request-id'] },
  ])
})

/** Resident memory of each process, in MiB. */
async function resident(): Promise<number[]> {
  return await Promise.all(
    names.map(async (name) => {
      const status = await readFile(`/proc/${stack.process(name).pid}/status`, 'utf8')
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024
    }),
  )
}

describe(`a file of ${sizeMib} MiB`, () => {
  const memory = `no process grows by more than ${growthMib} MiB on the way in, and twice that on the way out`
  test(
    `passes through the gateway into the store and out again${hasProcesses ? `; ${memory}` : ''}`,
    { timeout: sizeMib > 256 ? 1_200_000 : 300_000 },
    async () => {
      const tenant = await stack.createTenant()
      const { key } = await stack.createKey(tenant, { scopes: ['write:evidence'] })
      const auditor = await signIn(tenant.id, 'auditor')
      const chunk = randomBytes(megabyte)
      const send = async (chunks: number, each: () => Promise<void>) => {
        const hash = createHash('sha256')
        const produce = async function* () {
          for (let count = 0; count < chunks; count += 1) {
            if (count % 8 === 7) await each()
            hash.update(chunk)
            yield chunk
          }
        }
        const answer = await request(`${gateway}/api/v1/evidence?file_name=large.bin`, {
          method: 'POST',
          headers: { authorization: `ApiKey ${key}`, 'content-type': 'application/octet-stream' },
          body: Readable.from(produce()),
          headersTimeout: 1_200_000,
        })
        const receipt = receiptSchema.parse(await answer.body.json())
        expect(receipt).toMatchObject({ size_bytes: chunks * megabyte, sha256: hash.digest('hex') })
        return receipt
      }
      const download = async (receipt: Receipt, each: () => Promise<void>) => {
        const hash = createHash('sha256')
        const { body } = await request(`${gateway}${contentOf(receipt)}`, { headers: auditor })
        let sinceLook = 0
        for await (const part of body) {
          if (!Buffer.isBuffer(part)) throw new TypeError('a body must be read as bytes')
          hash.update(part)
          sinceLook += part.length
          if (sinceLook < 8 * megabyte) continue
          sinceLook = 0
          await each()
        }
        expect(hash.digest('hex')).toBe(receipt.sha256)
      }
      // One small file first, which loads all code.
      await download(await send(1, async () => undefined), async () => undefined)
      if (!hasProcesses) {
        await download(await send(sizeMib, async () => undefined), async () => undefined)
        return
      }
      const before = await resident()
      const peak = [...before]
      const look = async () => {
        for (const [index, now] of (await resident()).entries()) peak[index] = Math.max(peak[index] ?? 0, now)
      }
      const limit = { up: growthMib, down: 2 * growthMib }
      const outgrown = (way: 'up' | 'down') => {
        const grown = names.map((name, index) => {
          return { name, way, growth: Math.round((peak[index] ?? 0) - (before[index] ?? 0)) }
        })
        process.stdout.write(
          `${sizeMib} MiB ${way}: ${grown.map(({ name, growth }) => `${name} +${growth}`).join(', ')} MiB\n`,
        )
        return grown.filter(({ growth }) => growth > limit[way])
      }
      const receipt = await send(sizeMib, look)
      expect(outgrown('up')).toEqual([])
      await download(receipt, look)
      // Garbage of a read file, some dozens of MiB for any size.
      expect(outgrown('down')).toEqual([])

      // A slow reader is waited for, and the rest of the file stays in the store; a disconnected one is dropped.
      const idle = await request(`${gateway}${contentOf(receipt)}`, { headers: auditor })
      let last: readonly number[] = []
      await vi.waitFor(
        async () => {
          const now = await openBlobs()
          const isHeld = now.length === 1 && now[0] === last[0] && (now[0] ?? 0) < sizeMib * megabyte
          last = now
          expect(isHeld).toBe(true)
        },
        { timeout: 60_000, interval: 100 },
      )
      idle.body.on('error', () => undefined).destroy()
      await vi.waitFor(async () => expect(await openBlobs()).toEqual([]), { timeout: 60_000 })
    },
  )
})
