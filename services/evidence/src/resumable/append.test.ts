import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { append } from './append.ts'

const limits = { atMost: 10, checksum: undefined, stallMs: 60_000 }

/** A store that has no memory free for what is written. */
function aFullStore() {
  const asked = Promise.withResolvers<void>()
  const writer = {
    write: async (_chunk: Uint8Array, gone?: AbortSignal) => {
      asked.resolve()
      await new Promise((_resolve, reject) => {
        gone?.addEventListener('abort', () => reject(gone.reason))
      })
    },
    rollBack: async () => await Promise.resolve(),
    close: async () => await Promise.resolve(0),
  }
  return { writer, asked: asked.promise }
}

test.each([
  ['whose connection breaks', (body: PassThrough) => void body.destroy(new Error('the connection is gone')), 'is gone'],
  ['that another request ends', (_body: PassThrough, other: AbortController) => other.abort(), 'conflict'],
] as const)('a piece %s waits for memory no longer', async (_which, end, reason) => {
  const { writer, asked } = aFullStore()
  const [body, other] = [new PassThrough(), new AbortController()]
  const appended = append(body, writer, { ...limits, signal: other.signal })
  body.write('a')
  await asked
  end(body, other)
  await expect(appended).rejects.toThrow(reason)
})

test('a piece that has arrived completely is written completely, however long that takes', async () => {
  const body = new PassThrough()
  let isMissing: boolean | undefined
  const write = async (_chunk: Uint8Array, gone?: AbortSignal) => {
    if (!body.closed) await once(body, 'close')
    isMissing = gone?.aborted
  }
  const writer = { ...aFullStore().writer, write }
  body.end('a')
  await append(body, writer, { ...limits, signal: new AbortController().signal })
  expect(isMissing).toBe(false)
})
