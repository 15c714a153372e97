import { randomInt, randomUUID } from 'node:crypto'
import { generateKey } from '@postern/api-key'
import { recordTtlMs } from '@postern/contracts/internal'
import { createCacheCodec, storeRecordScript } from '@postern/key-cache'
import { KeysModel, RedisModel, startTestRedis } from '@postern/local-stack/testing'
import { parseKeyRing } from '@postern/signed-context'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Play, answered, bySuperuser } from './conformance-play.ts'
import { type WatchSabotage, enforced } from './conformance-watch.ts'
import { type KeysUnderTest, newKey, newTenant, startKeys } from './service.ts'

/*
 * The gateway is tested against a model of the keys service (services/gateway/test/conformance.test.ts). This test compares
 * that model with the keys service's own code and SQL. Both get the same random sequences, and must return the same
 * responses and report changes as enforced at the same stages. The model sets the replica's clock; the superuser moves
 * the times that PostgreSQL has stored.
 */

let service: KeysUnderTest

beforeAll(async () => {
  service = await startKeys()
})

afterAll(async () => {
  process.stdout.write(`sequences of leases: POSTERN_SEED=${seed} ${JSON.stringify({ ...answered, ...enforced })}\n`)
  await service.close()
})

/** Deliberate faults in function bodies, to check that they are detected. */
interface Sabotage {
  readonly routine: string
  readonly from: string
  readonly to: string
}

/** Starts with two keys of two tenants and an empty log. */
async function startOver(sabotage: WatchSabotage): Promise<Play> {
  await bySuperuser(service, 'delete from keys.gateway_lease')
  await bySuperuser(service, 'delete from keys.revocation')
  await bySuperuser(service, `update keys.revocation_seq set seq = 0, mark = repeat('0', 64)`)
  const keys = await Promise.all(
    [1, 2].map(async () => {
      const admin = await newTenant(service)
      const { hash } = await newKey(service, admin)
      return { hash, tenantId: admin.tenantId }
    }),
  )
  return await Play.open(service, keys, sabotage)
}

const alphabet = [
  ...Array<'renew'>(4).fill('renew'),
  ...Array<'advance'>(8).fill('advance'),
  ...Array<'begin'>(3).fill('begin'),
  ...Array<'commit'>(3).fill('commit'),
  ...Array<'look'>(3).fill('look'),
  ...Array<'quiet'>(6).fill('quiet'),
  ...Array<'burst'>(1).fill('burst'),
  ...Array<'pass'>(4).fill('pass'),
  ...Array<'release'>(2).fill('release'),
  ...(['step', 'prune'] as const),
] as const
type Event = readonly [name: (typeof alphabet)[number], one: number, other: number]

const spans = [1, 500, 999, 1000, 1001, 1999, 2000, 2001]
/** Every lease ends in these spans, and in the longest the whole log. */
const longSpans = [410_000, 2_400_000, 2_400_000]
const kinds = ['revoke', 'narrow', 'narrow', 'tenant', 'tenant'] as const
const lags = [0, 0, 0, 0, 1, 2, 9, 10]

function pick<T>(all: readonly T[], index: number): T {
  const one = all[index % all.length]
  if (one === undefined) throw new Error('nothing to pick from')
  return one
}

async function happen(play: Play, [name, one, other]: Event): Promise<void> {
  switch (name) {
    case 'renew':
      return await play.renew(play.gateway(one), pick(lags, other))
    case 'advance':
      return await play.advance(one)
    case 'begin':
      return await play.begin(pick(kinds, one), play.key(other))
    case 'commit':
      return await play.commit()
    case 'quiet':
      return await play.quiet(play.gateway(one))
    case 'burst':
      // More changes than one response holds.
      for (let count = 0; count < 3; count += 1) {
        await play.begin('tenant', play.key(other))
        await play.commit()
      }
      return
    case 'look':
      return await play.look(play.key(one))
    case 'release':
      return await play.release(play.gateway(one))
    case 'pass':
      return await play.pass(pick(other % 4 === 0 ? longSpans : spans, one))
    case 'step':
      return await play.step(one % 2 === 0 ? 3_600_000 : -3_600_000)
    case 'prune':
      return await play.prune()
    default:
      return name satisfies never
  }
}

const seed = Number(process.env['POSTERN_SEED'] ?? randomInt(2 ** 31))
const sequences = fc.array(fc.tuple(fc.constantFrom(...alphabet), fc.nat(100), fc.nat(100)), {
  minLength: 40,
  maxLength: 80,
  size: 'max',
})

/** The only error that counts as a detected difference. */
class DifferenceError extends Error {
  override readonly name = 'DifferenceError'
}

async function explore(numRuns: number, { ofSeed = seed, ...sabotage }: WatchSabotage & { ofSeed?: number } = {}) {
  return await fc.check(
    fc.asyncProperty(sequences, async (events: readonly Event[]) => {
      const play = await startOver(sabotage)
      try {
        for (const event of events) if (play.differences.length === 0) await happen(play, event)
      } finally {
        await play.close()
      }
      if (play.differences.length > 0) throw new DifferenceError(play.differences.join('\n'))
    }),
    { seed: ofSeed, numRuns, endOnFailure: true },
  )
}

/** Replaces text in a database function while `work` runs. */
async function sabotaged<T>({ routine, from, to }: Sabotage, work: () => Promise<T>): Promise<T> {
  const [row] = await service.asSuperuser.system(async (tx) => {
    return await tx.query<{ text: string }>({
      text: 'select pg_get_functiondef($1::regproc) as text',
      values: [routine],
    })
  })
  const text = row?.text ?? ''
  expect(text, routine).toContain(from)
  await bySuperuser(service, text.replace(from, to))
  try {
    return await work()
  } finally {
    await bySuperuser(service, text)
  }
}

/** Whether a kind of answer never occurred. */
const isUngone = () => Object.values({ ...answered, ...enforced }).includes(0)

describe('the keys service and its model give the same answers', () => {
  test('in random sequences with steps between the stages of renewals', { timeout: 120_000 }, async () => {
    let run = await explore(15)
    // Random: some paths occur rarely.
    for (let more = 1; more < 8 && !run.failed && isUngone(); more += 1)
      run = await explore(15, { ofSeed: seed + more })
    expect(run.failed, `${String(run.errorInstance)}: ${fc.defaultReportMessage(run)}`).toBe(false)
    // Every path occurred.
    for (const [name, count] of Object.entries({ ...answered, ...enforced })) expect(count, name).toBeGreaterThan(0)
  })
})

// Fixed sequences, so that they detect the same faults each time.
describe('the sequences detect a keys service', () => {
  const sabotages: Readonly<Record<string, Sabotage>> = {
    'that grants leases to lagging gateways': {
      routine: 'keys.grant_lease',
      from: 'where c.seq = cursor_seq',
      to: 'where c.seq >= cursor_seq',
    },
    'that moves a cursor backwards': {
      routine: 'keys.grant_lease',
      from: 'acked = greatest(l.acked, excluded.acked)',
      to: 'acked = excluded.acked - 1',
    },
    'that does not record the cursor of a lagging gateway': {
      routine: 'keys.grant_lease',
      from: 'l.acked < cursor_seq',
      to: 'false',
    },
    'that omits the first entry after a cursor': {
      routine: 'keys.follow_log',
      from: 'else cursor_seq end',
      to: 'else cursor_seq + 1 end',
    },
    'that follows a cursor from before its log': {
      routine: 'keys.follow_log',
      from: 'or cursor_seq < log.before_first',
      to: '',
    },
    'that accepts a cursor of a different log': {
      routine: 'keys.follow_log',
      from: 'or coalesce(keys.mark_at(cursor_seq) <> cursor_mark, false)',
      to: '',
    },
    'that gives all logs the same mark': {
      routine: 'keys.log_change',
      from: "concat_ws(' ', before, next, told)",
      to: "concat_ws(' ', next, told)",
    },
    'that deletes entries too early': {
      routine: 'keys.prune_log',
      from: 'o.seq <= up_to',
      to: 'o.seq <= up_to + 1',
    },
    'that keeps a released lease': {
      routine: 'keys.release_lease',
      from: 'set released = true',
      to: 'set released = false',
    },
  }

  test.each(Object.entries(sabotages))('%s', { timeout: 120_000 }, async (_title, sabotage) => {
    const run = await sabotaged(sabotage, async () => await explore(60, { ofSeed: 7 }))
    expect(run.errorInstance).toBeInstanceOf(DifferenceError)
  })
})

describe('the sequences detect a lease watch', () => {
  const sabotages: Readonly<Record<string, WatchSabotage>> = {
    'that uses the clock of PostgreSQL': { now: (model) => model.now },
    'that overestimates a cursor': {
      rows: (rows) => rows.map((row) => ({ ...row, acked: row.acked + 1 })),
    },
    'that treats every lease as released': {
      rows: (rows) => rows.map((row) => ({ ...row, released: true })),
    },
    'that ignores released leases': {
      rows: (rows) => rows.map((row) => ({ ...row, released: false })),
    },
    'that treats every lease as renewed': { rows: (rows) => rows.map((row) => ({ ...row, grant: randomUUID() })) },
    'that ignores renewals': { rows: (rows) => rows.map((row) => ({ ...row, grant: '' })) },
    'that uses the rows of its previous poll': { rows: (_rows, before) => before },
  }

  test.each(Object.entries(sabotages))('%s', { timeout: 120_000 }, async (_title, sabotage) => {
    expect((await explore(60, { ofSeed: 7, ...sabotage })).errorInstance).toBeInstanceOf(DifferenceError)
  })
})

describe('Redis and its model keep the same record', () => {
  const ring = parseKeyRing(`k1:${Buffer.alloc(32, 7).toString('base64url')}`)
  const stores = fc.array(
    fc.record({
      version: fc.integer({ min: 1, max: 3 }),
      tenantVersion: fc.integer({ min: 1, max: 2 }),
      revoked: fc.boolean(),
      // Read a moment ago, or too long ago to be stored.
      ageMs: fc.constantFrom(0, 1000, 2000, 60_000, recordTtlMs + 60_000),
    }),
    { minLength: 1, maxLength: 12 },
  )

  /** Returns the difference found, if any. */
  async function differenceOf(script: string, ofSeed = seed): Promise<string | undefined> {
    const server = await startTestRedis()
    const redis = new Redis(server.url)
    try {
      const codec = createCacheCodec(ring)
      const run = await fc.check(
        fc.asyncProperty(stores, async (all) => {
          const model = new RedisModel()
          const { hash } = generateKey()
          const base = new KeysModel(Date.now(), [{ hash, tenantId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001' }]).findKey(
            hash,
          )
          if (base === null) throw new Error('no record')
          for (const { ageMs, ...given } of all) {
            const record = { ...base, ...given, expiresAt: Date.now() + 3_600_000, readAt: base.readAt - ageMs }
            const { key, value, endsAt } = codec.encodeRecord(record)
            await redis.eval(script, 1, key, value, endsAt)
            model.store(record, Date.now())
            const text = await redis.get(key)
            const found = text === null ? undefined : codec.decodeRecord(hash, text)
            expect(stateOf(found)).toEqual(stateOf(model.find(hash, Date.now())))
          }
        }),
        { seed: ofSeed, numRuns: 100, endOnFailure: true },
      )
      return run.failed ? String(run.errorInstance) : undefined
    } finally {
      redis.disconnect()
      await server.stop()
    }
  }

  test('of several records of a key in any order', { timeout: 60_000 }, async () => {
    expect(await differenceOf(storeRecordScript)).toBeUndefined()
  })

  test('and a script that keeps the last record is detected (control)', { timeout: 60_000 }, async () => {
    const last = "return redis.call('SET', KEYS[1], ARGV[1], 'PXAT', ARGV[2])"
    // Only a difference counts, not a failing script.
    expect(await differenceOf(last, 7)).toContain('to deeply equal')
  })
})

function stateOf(record: ReturnType<RedisModel['find']>) {
  return record === undefined
    ? undefined
    : { version: record.version, tenantVersion: record.tenantVersion, revoked: record.revoked, readAt: record.readAt }
}
