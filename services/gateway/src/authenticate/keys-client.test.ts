import { randomBytes, randomUUID } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { requestIdHeader } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import { createVerifier, nilTenantId, parseKeyRing } from '@postern/signed-context'
import { afterEach, describe, expect, test } from 'vitest'
import { fakeClocks, keyRecord, leaseAnswer } from '../../test/builders.ts'
import { ContentRefusedError, openKeysClient } from './keys-client.ts'

const ring = parseKeyRing(`k1:${randomBytes(32).toString('base64url')}`)
const hash = 'a'.repeat(64)
const gateway = randomUUID()
const renewal = { gateway, name: 'a', cursor: 0, mark: null }
const noRecord = JSON.stringify({ records: [null], now: 1 })
const closers: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

/** Has the server listen until the test is over; gives its origin. */
async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `http://127.0.0.1:${address.port}`
}

/** A keys service that answers as told, and the client that asks it. */
async function startKeys(answer: (path: string, request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer((request, response) => {
    request.resume().once('end', () => answer(request.url ?? '', request, response))
  })
  const origin = await listen(server)
  const clocks = fakeClocks()
  const client = openKeysClient({ url: origin, ring, gateway, clocks })
  closers.push(async () => await client.close())
  return { client, clocks }
}

/** A request to the keys service, with the verified context. */
interface Asked {
  readonly path: string
  readonly body: unknown
  readonly type: string | undefined
  readonly requestId: string | undefined
  readonly context: unknown
}

/** A keys service that believes what is signed, and answers as told; `url` is where the client looks for it. */
async function startBelieving(answer: (asked: Asked) => { status?: number; body?: unknown }, prefix = '') {
  const verifier = createVerifier(ring, 'internal')
  const asked: Asked[] = []
  const server = createServer((request, response) => {
    const { url = '', headers, rawHeaders } = request
    void text(request).then((sent) => {
      const verification = verifier.verify(
        { method: request.method ?? '', target: url, headers: rawHeaders },
        Date.now(),
      )
      if (!verification.ok) {
        response.writeHead(401).end(verification.reason)
        return
      }
      const one = {
        path: url.slice(prefix.length),
        body: JSON.parse(sent),
        type: headers['content-type'],
        requestId: headers[requestIdHeader]?.toString(),
        context: verification.context,
      }
      asked.push(one)
      const { status = 200, body } = answer(one)
      response.writeHead(status).end(body === undefined ? undefined : JSON.stringify(body))
    })
  })
  const origin = await listen(server)
  const url = origin + prefix
  const client = openKeysClient({ url, ring, gateway, clocks: fakeClocks() })
  closers.push(async () => await client.close())
  return { client, asked }
}

describe('a call', () => {
  test('is signed by this gateway, without a tenant, with a unique id', async () => {
    const { client, asked } = await startBelieving(() => ({ body: leaseAnswer() }))
    expect(await client.renewLease(renewal)).toEqual(leaseAnswer())
    await client.renewLease(renewal)
    const context = { tenantId: nilTenantId, kind: 'service', id: gateway, label: 'gateway', scopes: [], roles: [] }
    const one = { path: internalPaths.leases, body: renewal, type: 'application/json', context }
    const id = `gateway-${gateway.slice(0, 8)}`
    expect(asked).toMatchObject([
      { ...one, requestId: `${id}-1` },
      { ...one, requestId: `${id}-2` },
    ])
  })

  test('goes to the service, also below a path', async () => {
    const { client, asked } = await startBelieving(() => ({ status: 204 }), '/below/keys')
    await client.releaseLease(gateway)
    expect(asked).toMatchObject([{ path: internalPaths.releaseLease, body: { gateway } }])
  })

  test.each([300, 404, 503])('that is answered %i fails', async (status) => {
    const { client } = await startBelieving(() => ({ status, body: leaseAnswer() }))
    await expect(client.renewLease(renewal)).rejects.toThrow(`the keys service answered ${status}`)
  })

  test.each([200, 299])('that is answered %i does not', async (status) => {
    const { client } = await startBelieving(() => ({ status, body: leaseAnswer() }))
    expect(await client.renewLease(renewal)).toEqual(leaseAnswer())
  })

  test('fails if a lease is rejected', async () => {
    const { client, asked } = await startBelieving(() => ({ status: 422 }))
    await expect(client.renewLease(renewal)).rejects.toBeInstanceOf(ContentRefusedError)
    expect(asked).toHaveLength(1)
  })

  test.each([
    ['its id', 'tenantId', randomUUID()],
    ['an id that could be a slug', 'tenantId', 'a9a3a0c0-7c00-7000-8000-000000000001'],
    ['its slug', 'slug', 'harbourline'],
  ])('for a tenant by %s returns its record', async (_what, member, reference) => {
    const { client, asked } = await startBelieving(() => ({ body: { record: null, now: 5 } }))
    expect(await client.findTenant(reference)).toMatchObject({ record: null, now: 5 })
    expect(asked).toMatchObject([{ path: internalPaths.lookupTenant, body: { [member]: reference } }])
  })

  test('reports what was used', async () => {
    const { client, asked } = await startBelieving(() => ({ status: 204 }))
    await client.reportUsage({ uses: [], denials: [] })
    expect(asked).toMatchObject([{ path: internalPaths.usage, body: { uses: [], denials: [] } }])
  })

  test('with an answer to a different question fails', async () => {
    const { client } = await startBelieving(() => ({ body: {} }))
    await expect(client.renewLease(renewal)).rejects.toBeInstanceOf(Error)
    await expect(client.findTenant(randomUUID())).rejects.toBeInstanceOf(Error)
    await expect(client.findKey(hash)).rejects.toBeInstanceOf(Error)
  })
})

describe('concurrent look-ups of keys', () => {
  const records = [keyRecord(), keyRecord()]
  const [first = keyRecord(), second = keyRecord()] = records

  test('are sent in one call, and each gets its record', async () => {
    const { client, asked } = await startBelieving(() => ({ body: { records: [first, null], now: 7 } }))
    const found = await Promise.all([client.findKey(first.hash), client.findKey(second.hash)])
    expect(found).toMatchObject([
      { record: { hash: first.hash }, now: 7 },
      { record: null, now: 7 },
    ])
    expect(asked).toMatchObject([{ path: internalPaths.lookupKeys, body: { hashes: [first.hash, second.hash] } }])
  })

  test.each([
    ['fewer than were asked for', [first]],
    ['more than were asked for', [first, second, null]],
    ['in another order', [second, first]],
    ['one of another key', [first, first]],
  ])('are rejected if they come as %s', async (_what, answered) => {
    const { client } = await startBelieving(() => ({ body: { records: answered, now: 7 } }))
    const found = await Promise.allSettled([client.findKey(first.hash), client.findKey(second.hash)])
    expect(found).toMatchObject(
      [first, second].map(() => ({
        reason: new Error('the keys service answered for other keys than it was asked for'),
      })),
    )
  })

  test('are not repeated one by one if the service fails', async () => {
    const { client, asked } = await startBelieving(() => ({ status: 500 }))
    await expect(client.findKey(hash)).rejects.toThrow('the keys service answered 500')
    expect(asked).toHaveLength(1)
  })

  test('are sent 32 at a time', async () => {
    const { client, asked } = await startBelieving(({ body }) => {
      const { hashes } = body as { hashes: string[] }
      return { body: { records: hashes.map(() => null), now: 7 } }
    })
    await Promise.all(
      Array.from({ length: 33 }, async (_none, at) => await client.findKey(String(at).repeat(64).slice(0, 64))),
    )
    expect(asked.map(({ body }) => (body as { hashes: string[] }).hashes.length)).toEqual([32, 1])
  })
})

test('a closed client sends nothing', async () => {
  const { client, asked } = await startBelieving(() => ({ status: 204 }))
  await client.close()
  await expect(client.renewLease(renewal)).rejects.toBeInstanceOf(Error)
  await expect(client.findKey(hash)).rejects.toBeInstanceOf(Error)
  await expect(client.reportUsage({ uses: [], denials: [] })).rejects.toBeInstanceOf(Error)
  expect(asked).toEqual([])
})

describe('a look-up', () => {
  test('is repeated when its connection breaks, as when a process ends', async () => {
    let asked = 0
    const { client } = await startKeys((_path, request, response) => {
      asked += 1
      if (asked === 1) request.socket.destroy()
      else response.end(noRecord)
    })
    expect(await client.findKey(hash)).toMatchObject({ record: null, now: 1 })
    expect(asked).toBe(2)
  })

  test('has a longer time-out than a renewal, so that a busy service is not asked again', async () => {
    const held: ServerResponse[] = []
    const { client } = await startKeys((path, _request, response) => {
      if (path === internalPaths.lookupKeys) held.push(response)
    })
    const found = client.findKey(hash)
    await expect(client.renewLease(renewal)).rejects.toBeInstanceOf(Error)
    for (const response of held) response.end(noRecord)
    expect(await found).toMatchObject({ record: null, now: 1 })
  })

  test('of a tenant is one of at most eight, and does not delay keys', async () => {
    const held: ServerResponse[] = []
    const arrived = new EventEmitter()
    const { client } = await startKeys((path, _request, response) => {
      if (path === internalPaths.lookupKeys) {
        response.end(noRecord)
        return
      }
      held.push(response)
      arrived.emit('more')
    })
    const found = Promise.all(Array.from({ length: 9 }, async () => await client.findTenant(randomUUID())))
    while (held.length < 8) await once(arrived, 'more')
    expect(await client.findKey(hash)).toMatchObject({ record: null, now: 1 })
    expect(held).toHaveLength(8)
    const noTenant = JSON.stringify({ record: null, now: 2 })
    for (const response of held.splice(0)) response.end(noTenant)
    while (held.length === 0) await once(arrived, 'more')
    held[0]?.end(noTenant)
    expect(await found).toMatchObject(Array.from({ length: 9 }, () => ({ record: null, now: 2 })))
  })

  test('reports when it was sent, and not when it began to wait', async () => {
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

  test('fails if the connection is not accepted', async () => {
    const client = openKeysClient({ url: 'http://127.0.0.1:1', ring, gateway, clocks: fakeClocks() })
    closers.push(async () => await client.close())
    await expect(client.findKey(hash)).rejects.toBeInstanceOf(Error)
  })
})

test('a usage report has a longer time-out than a look-up, because a repetition would count twice', async () => {
  const held: ServerResponse[] = []
  const { client } = await startKeys((path, _request, response) => {
    if (path === internalPaths.usage) held.push(response)
  })
  const reported = client.reportUsage({ uses: [], denials: [] })
  await expect(client.findKey(hash)).rejects.toBeInstanceOf(Error)
  for (const response of held) response.writeHead(204).end()
  await expect(reported).resolves.toBeUndefined()
})

async function failureAt(status: number): Promise<unknown> {
  const { client } = await startBelieving(() => ({ status }))
  return await client.reportUsage({ uses: [], denials: [] }).catch((error: unknown) => error)
}

test('a permanently rejected report differs from a temporary failure', async () => {
  expect(await failureAt(422)).toEqual(new ContentRefusedError('the keys service rejected the content'))
  expect(await failureAt(500)).toEqual(new Error('the keys service answered 500'))
})

test('a report whose connection breaks is not repeated, because it may have been counted', async () => {
  let asked = 0
  const { client } = await startKeys((_path, request) => {
    asked += 1
    request.socket.destroy()
  })
  await expect(client.reportUsage({ uses: [], denials: [] })).rejects.toBeInstanceOf(Error)
  expect(asked).toBe(1)
})

test('a renewal whose connection breaks is not repeated: the next one counts from a later moment', async () => {
  let asked = 0
  const { client } = await startKeys((_path, request) => {
    asked += 1
    request.socket.destroy()
  })
  await expect(client.renewLease(renewal)).rejects.toBeInstanceOf(Error)
  expect(asked).toBe(1)
})
