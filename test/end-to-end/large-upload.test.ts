import { createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { receiptSchema } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { request } from 'undici'

const megabyte = 1024 * 1024
/** What a process may grow by is the same for any size. The whole one is for a machine of its own: `POSTERN_TEST_UPLOAD_MIB=2048`. */
const sizeMib = Number(process.env['POSTERN_TEST_UPLOAD_MIB'] ?? 256)
const growthMib = 64
const names = ['gateway-1', 'evidence'] as const

let stack: TestStack
beforeAll(async () => (stack = await startTestStack()))
afterAll(async () => await stack.stop())

/** Resident memory of each process, in MiB. */
async function resident(): Promise<number[]> {
  return await Promise.all(
    names.map(async (name) => {
      const status = await readFile(`/proc/${stack.process(name).pid}/status`, 'utf8')
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024
    }),
  )
}

describe.runIf(process.platform === 'linux')(`a file of ${sizeMib} MiB`, () => {
  test(
    `passes through the gateway into the store, and no process grows by more than ${growthMib} MiB`,
    { timeout: 300_000 },
    async () => {
      const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['write:evidence'] })
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
        const answer = await request(`${stack.gateways[0]}/api/v1/evidence?file_name=large.bin`, {
          method: 'POST',
          headers: { authorization: `ApiKey ${key}`, 'content-type': 'application/octet-stream' },
          body: Readable.from(produce()),
          headersTimeout: 300_000,
        })
        const receipt = receiptSchema.parse(await answer.body.json())
        expect(receipt).toMatchObject({ size_bytes: chunks * megabyte, sha256: hash.digest('hex') })
      }
      // Cold but for one small upload, which has loaded what any upload needs.
      await send(1, async () => undefined)
      const before = await resident()
      const peak = [...before]
      await send(sizeMib, async () => {
        for (const [index, now] of (await resident()).entries()) peak[index] = Math.max(peak[index] ?? 0, now)
      })
      const growth = peak.map((most, index) => Math.round(most - (before[index] ?? 0)))
      for (const [index, name] of names.entries()) expect({ name, growth: growth[index] }).toSatisfy(isSmall)
    },
  )
})

function isSmall({ growth }: { growth: number }): boolean {
  return growth <= growthMib
}
