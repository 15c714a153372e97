import { internalPaths, recordTtlMs, redisRecordKey, redisRevocationChannel } from '@postern/contracts/internal'
import { createCacheCodec, storeRecordScript } from '@postern/key-cache'
import { type TestRedis, startTestRedis } from '@postern/local-stack/testing'
import { parseKeyRing } from '@postern/signed-context'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  type KeysUnderTest,
  LeaseHolder,
  during,
  getKey,
  lookUp,
  newKey,
  newTenant,
  path,
  revoke,
  startKeys,
} from './service.ts'

let server: TestRedis
/** Waits for Redis without a time limit. In production, late commands are dropped. */
let service: KeysUnderTest
let redis: Redis
beforeAll(async () => {
  server = await startTestRedis()
  service = await startKeys({ redisUrl: server.urls.keys, cacheTimeoutMs: 20_000 })
  redis = new Redis(server.url)
  await connected(service)
})
afterAll(async () => {
  redis.disconnect()
  await service.close()
  await server.stop()
})

const codec = () => createCacheCodec(parseKeyRing(service.cacheMac))

/** Waits until the service can write to Redis, and returns the hash of the key that it stored. */
async function connected(to: KeysUnderTest): Promise<string> {
  const admin = await newTenant(to)
  const { hash } = await newKey(to, admin)
  const isStored = async () => {
    await lookUp(to, hash)
    if ((await redis.exists(redisRecordKey(hash))) !== 1) throw new Error('not stored yet')
  }
  await vi.waitFor(isStored, { interval: 20, timeout: 30_000 })
  return hash
}

async function stored(hash: string) {
  const text = await redis.get(redisRecordKey(hash))
  return text === null ? undefined : codec().decodeRecord(hash, text)
}

describe('with Redis up', () => {
  test('a looked-up key is stored in Redis for other gateways, with an expiry and without its value', async () => {
    const admin = await newTenant(service)
    const { hash, value } = await newKey(service, admin)
    const { record } = await lookUp(service, hash)
    if (record === null) throw new Error('the key was not found')
    await expect.poll(async () => await stored(hash), { interval: 5 }).toEqual(record)
    expect(await redis.pexpiretime(redisRecordKey(hash))).toBe(record.readAt + recordTtlMs)
    expect(await redis.get(redisRecordKey(hash))).not.toContain(value.slice(8, 40))
  })

  test('an unknown hash is not stored in Redis, because anyone can invent one', async () => {
    const hashes: string[] = []
    for (let tried = 0; tried < 20; tried += 1) {
      const hash = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('hex')
      hashes.push(hash)
      expect((await lookUp(service, hash)).record).toBeNull()
    }
    // By now the earlier look-ups would have been stored.
    const known = await connected(service)
    const keys = await redis.keys('*')
    expect(keys).toContain(redisRecordKey(known))
    expect(keys.filter((key) => hashes.some((hash) => key.includes(hash)))).toEqual([])
  })

  test('a revoke stores a tombstone that no late fill replaces, and publishes a signed announcement', async () => {
    const admin = await newTenant(service)
    const { id, hash } = await newKey(service, admin)
    const { record: early } = await lookUp(service, hash)
    const listener = redis.duplicate()
    const told = Promise.withResolvers<string>()
    listener.on('message', (_channel, text) => told.resolve(text))
    await listener.subscribe(redisRevocationChannel)
    await revoke(service, admin, id)
    expect(codec().decodeMessage(await told.promise)).toMatchObject({ kind: 'key', hash, version: 2, revoked: true })
    listener.disconnect()
    await expect.poll(async () => await stored(hash), { interval: 5 }).toMatchObject({ revoked: true, version: 2 })

    if (early === null) throw new Error('the key was not found')
    const fill = codec().encodeRecord(early)
    expect(await redis.eval(storeRecordScript, 1, fill.key, fill.value, fill.endsAt)).toBe(0)
    expect(await stored(hash)).toMatchObject({ revoked: true })
    // Control: without a tombstone, the same fill is stored.
    await redis.del(fill.key)
    expect(await redis.eval(storeRecordScript, 1, fill.key, fill.value, fill.endsAt)).toBe(1)
  })

  test('a fill that expired between reading and storing is not stored', async () => {
    const admin = await newTenant(service)
    const { hash } = await newKey(service, admin)
    const { record } = await lookUp(service, hash)
    if (record === null) throw new Error('the key was not found')
    await expect.poll(async () => await stored(hash), { interval: 5 }).toEqual(record)
    await redis.del(redisRecordKey(hash))
    const { key, value, endsAt } = codec().encodeRecord({ ...record, readAt: record.readAt - recordTtlMs })
    await redis.eval(storeRecordScript, 1, key, value, endsAt)
    expect(await redis.exists(key)).toBe(0)
  })

  test('a record lives no longer if the clock of the database runs ahead', async () => {
    const admin = await newTenant(service)
    const { hash } = await newKey(service, admin)
    const { record } = await lookUp(service, hash)
    if (record === null) throw new Error('the key was not found')
    const ahead = codec().encodeRecord({ ...record, readAt: record.readAt + 3_600_000 })
    expect(await redis.eval(storeRecordScript, 1, ahead.key, ahead.value, ahead.endsAt)).toBe(1)
    expect(await redis.pttl(ahead.key)).toBeLessThanOrEqual(recordTtlMs)
  })

  test('an invalid value in Redis is replaced, and only valid records are stored', async () => {
    const admin = await newTenant(service)
    const { hash } = await newKey(service, admin)
    await redis.set(redisRecordKey(hash), 'rubbish')
    await lookUp(service, hash)
    await expect.poll(async () => await stored(hash), { interval: 5 }).toMatchObject({ hash })
    await expect(redis.eval(storeRecordScript, 1, 'postern:trial', 'rubbish', Date.now() + 1000)).rejects.toThrow(
      'not a record',
    )
  })

  test('a narrowed key replaces the wider record, and a suspended tenant is announced', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin, { scopes: ['read:*'] })
    await lookUp(service, key.hash)
    await service.call(admin, 'PATCH', `${path}/${key.id}`, {
      body: { scopes: ['read:findings'] },
      headers: { 'if-match': key.etag },
    })
    await expect
      .poll(async () => await stored(key.hash), { interval: 5 })
      .toMatchObject({ scopes: ['read:findings'], version: 2 })
    const listener = redis.duplicate()
    const told = Promise.withResolvers<string>()
    listener.on('message', (_channel, text) => told.resolve(text))
    await listener.subscribe(redisRevocationChannel)
    await service.operate('POST', `${internalPaths.tenants}/${admin.slug}/suspend`)
    expect(codec().decodeMessage(await told.promise)).toMatchObject({
      kind: 'tenant',
      tenantId: admin.tenantId,
      version: 2,
    })
    listener.disconnect()
  })
})

async function expectConfirmedRevoke(at: KeysUnderTest): Promise<void> {
  const admin = await newTenant(at)
  const { id, hash } = await newKey(at, admin)
  const gateway = await new LeaseHolder(at.ask).take()
  const { status, enforcement } = await during(revoke(at, admin, id), async () => await gateway.renew())
  await gateway.release()
  expect(status).toBe(200)
  expect(enforcement).toMatchObject({ gateways: 1, confirmed: 1, fenced: 0 })
  expect(await getKey(at, admin, id)).toMatchObject({ state: 'revoked' })
  expect((await lookUp(at, hash)).record).toMatchObject({ revoked: true })
}

describe('a revoke succeeds, confirmed by every gateway,', () => {
  /** Waits for Redis as long as in production. */
  let usual: KeysUnderTest
  beforeAll(async () => {
    usual = await startKeys({ redisUrl: server.urls.keys })
    await connected(usual)
  })
  afterAll(async () => await usual.close())

  test('with Redis frozen', async () => {
    server.kill('SIGSTOP')
    try {
      for (let round = 0; round < 3; round += 1) await expectConfirmedRevoke(usual)
    } finally {
      server.kill('SIGCONT')
    }
    await connected(usual)
  })

  test('with Redis stopped, and Redis is used again once it is back, empty', async () => {
    await server.stop()
    for (let round = 0; round < 3; round += 1) await expectConfirmedRevoke(usual)
    await server.start()
    await connected(usual)
  })
})
