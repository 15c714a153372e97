import { randomBytes, randomUUID } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import { internalPaths } from '@postern/contracts/internal'
import { parseKeyRing } from '@postern/signed-context'
import { afterEach, describe, expect, test } from 'vitest'
import { fakeClocks } from '../../test/builders.ts'
import { openKeysClient } from './keys-client.ts'

const ring = parseKeyRing(`k1:${randomBytes(32).toString('base64url')}`)
const hash = 'a'.repeat(64)
const gateway = randomUUID()
const renewal = { gateway, name: 'a', cursor: 0 }
const noRecord = JSON.stringify({ records: [null], now: 1 })
const closers: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

/** A keys service that answers as told, and the client that asks it. */
async function startKeys(answer: (path: string, request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer((request, response) => {
    request.resume().once('end', () => answer(request.url ?? '', request, response))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const clocks = fakeClocks()
  const client = openKeysClient({ url: `http://127.0.0.1:${address.port}`, ring, gateway, clocks })
  closers.push(async () => await client.close())
  return { client, clocks }
}

describe('a look-up', () => {
  test('is made again when its connection breaks off, as those of a process do that ends', async () => {
    let asked = 0
    const { client } = await startKeys((_path, request, response) => {
      asked += 1
      if (asked === 1) request.socket.destroy()
      else response.end(noRecord)
    })
    expect(await client.findKey(hash)).toMatchObject({ record: null, now: 1 })
    expect(asked).toBe(2)
  })

  test('is waited for longer than a renewal of the lease: a busy service need not be asked again', async () => {
    const held: ServerResponse[] = []
    const { client } = await startKeys((path, _request, response) => {
      if (path === internalPaths.lookupKeys) held.push(response)
    })
    const found = client.findKey(hash)
    await expect(client.renewLease(renewal)).rejects.toBeInstanceOf(Error)
    for (const response of held) response.end(noRecord)
    expect(await found).toMatchObject({ record: null, now: 1 })
  })

  test('says when it was sent, and not when it began to wait for its turn', async () => {
    const held: ServerResponse[] = []
    const arrived = new EventEmitter()
    const { client, clocks } = await startKeys((_path, _request, response) => {
      held.push(response)
      arrived.emit('more')
    })
    const first = Array.from({ length: 8 }, async (_none, at) => {
      // Each in a turn of its own, so that each is a call of its own: no more are made at once.
      for (let turns = 0; turns <= at; turns += 1) await new Promise((resolve) => setImmediate(resolve))
      return await client.findKey(hash)
    })
    while (held.length < 8) await once(arrived, 'more')
    const began = clocks.monotonic()
    const waited = client.findKey(hash)
    clocks.pass(1000)
    for (const response of held.splice(0)) response.end(noRecord)
    while (held.length === 0) await once(arrived, 'more')
    held[0]?.end(noRecord)
    expect((await Promise.all(first)).map(({ sentMonotonic }) => sentMonotonic)).toEqual(Array(8).fill(began))
    expect(await waited).toMatchObject({ sentMonotonic: began + 1000 })
  })

  test('fails when nobody takes the connection', async () => {
    const client = openKeysClient({ url: 'http://127.0.0.1:1', ring, gateway, clocks: fakeClocks() })
    closers.push(async () => await client.close())
    await expect(client.findKey(hash)).rejects.toBeInstanceOf(Error)
  })
})

test('a report of usage is waited for longer than a look-up: who gave up would send again what is being recorded', async () => {
  const held: ServerResponse[] = []
  const { client } = await startKeys((path, _request, response) => {
    if (path === internalPaths.usage) held.push(response)
  })
  const reported = client.reportUsage({ uses: [], denials: [] })
  await expect(client.findKey(hash)).rejects.toBeInstanceOf(Error)
  for (const response of held) response.writeHead(204).end()
  await expect(reported).resolves.toBeUndefined()
})

test('a renewal whose connection breaks off is not made again by itself: the next one counts from a later moment', async () => {
  let asked = 0
  const { client } = await startKeys((_path, request) => {
    asked += 1
    request.socket.destroy()
  })
  await expect(client.renewLease(renewal)).rejects.toBeInstanceOf(Error)
  expect(asked).toBe(1)
})
