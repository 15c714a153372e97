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
 * The gateway is tried against a model of the keys service (services/gateway/test/conformance.test.ts). Here that model is
 * held against the keys service's own code and SQL: random sequences are played to both, stage by stage, and whatever one
 * answers the other must answer, and when the one says that a change is in force the other must. The replica's own clock is
 * the model's; PostgreSQL's is set by the superuser, who moves what it has noted.
 */

let service: KeysUnderTest

beforeAll(async () => {
  service = await startKeys()
})

afterAll(async () => {
  process.stdout.write(`sequences of leases: POSTERN_SEED=${seed} ${JSON.stringify({ ...answered, ...enforced })}\n`)
  await service.close()
})

/** Function bodies that are wrong, to see that it is noticed. */
interface Sabotage {
  readonly routine: string
  readonly from: string
  readonly to: string
}

/** Two keys of two tenants, and a log that has nothing in it yet. */
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
/** Every lease ends meanwhile, and in the longest the log. */
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
      // More changes than one answer holds.
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

/** What the one answered and the other did not: nothing else that goes wrong counts as found. */
class Difference extends Error {
  override readonly name = 'Difference'
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
      if (play.differences.length > 0) throw new Difference(play.differences.join('\n'))
    }),
    { seed: ofSeed, numRuns, endOnFailure: true },
  )
}

/** Puts something else into a function of the database for as long as `work` takes. */
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

/** Whether some way was gone by no sequence. */
const isUngone = () => Object.values({ ...answered, ...enforced }).includes(0)

describe('the keys service answers what its model answers', () => {
  test('whatever comes between the stages of renewals', { timeout: 120_000 }, async () => {
    let run = await explore(15)
    // What comes is left to chance: some ways are gone by few.
    for (let more = 1; more < 8 && !run.failed && isUngone(); more += 1)
      run = await explore(15, { ofSeed: seed + more })
    expect(run.failed, `${String(run.errorInstance)}: ${fc.defaultReportMessage(run)}`).toBe(false)
    // Each way was gone.
    for (const [name, count] of Object.entries({ ...answered, ...enforced })) expect(count, name).toBeGreaterThan(0)
  })
})

// Always the same sequences: what they find once they find each time.
describe('the sequences find a keys service', () => {
  const sabotages: Readonly<Record<string, Sabotage>> = {
    'that grants leases to gateways which lag': {
      routine: 'keys.grant_lease',
      from: 'where c.seq = cursor_seq',
      to: 'where c.seq >= cursor_seq',
    },
    'that takes back what a gateway has applied': {
      routine: 'keys.grant_lease',
      from: 'acked = greatest(l.acked, excluded.acked)',
      to: 'acked = excluded.acked - 1',
    },
    'that does not note what a gateway which lags has applied': {
      routine: 'keys.grant_lease',
      from: 'l.acked < cursor_seq',
      to: 'false',
    },
    'that leaves out the first entry after a cursor': {
      routine: 'keys.follow_log',
      from: 'else cursor_seq end',
      to: 'else cursor_seq + 1 end',
    },
    'that follows a cursor from before its log': {
      routine: 'keys.follow_log',
      from: 'or cursor_seq < log.before_first',
      to: '',
    },
    'that goes on where a gateway knows another log': {
      routine: 'keys.follow_log',
      from: 'or coalesce(keys.mark_at(cursor_seq) <> cursor_mark, false)',
      to: '',
    },
    'that marks all logs alike': {
      routine: 'keys.log_change',
      from: "concat_ws(' ', before, next, told)",
      to: "concat_ws(' ', next, told)",
    },
    'that forgets entries too soon': {
      routine: 'keys.prune_log',
      from: 'o.seq <= up_to',
      to: 'o.seq <= up_to + 1',
    },
    'that keeps a lease which was given back': {
      routine: 'keys.release_lease',
      from: 'set released = true',
      to: 'set released = false',
    },
  }

  test.each(Object.entries(sabotages))('%s', { timeout: 120_000 }, async (_title, sabotage) => {
    const run = await sabotaged(sabotage, async () => await explore(60, { ofSeed: 7 }))
    expect(run.errorInstance).toBeInstanceOf(Difference)
  })
})

describe('the sequences find a watch over the leases', () => {
  const sabotages: Readonly<Record<string, WatchSabotage>> = {
    'that goes by the clock of PostgreSQL': { now: (model) => model.now },
    'that takes a gateway for further than it is': {
      rows: (rows) => rows.map((row) => ({ ...row, acked: row.acked + 1 })),
    },
    'that takes every lease for one that was given back': {
      rows: (rows) => rows.map((row) => ({ ...row, released: true })),
    },
    'that does not know of leases which were given back': {
      rows: (rows) => rows.map((row) => ({ ...row, released: false })),
    },
    'that never sees a lease unchanged': { rows: (rows) => rows.map((row) => ({ ...row, grant: randomUUID() })) },
    'that does not see a lease which is renewed': { rows: (rows) => rows.map((row) => ({ ...row, grant: '' })) },
    'that goes by the leases of its look before': { rows: (_rows, before) => before },
  }

  test.each(Object.entries(sabotages))('%s', { timeout: 120_000 }, async (_title, sabotage) => {
    expect((await explore(60, { ofSeed: 7, ...sabotage })).errorInstance).toBeInstanceOf(Difference)
  })
})

describe('Redis keeps what its model keeps', () => {
  const ring = parseKeyRing(`k1:${Buffer.alloc(32, 7).toString('base64url')}`)
  const stores = fc.array(
    fc.record({
      version: fc.integer({ min: 1, max: 3 }),
      tenantVersion: fc.integer({ min: 1, max: 2 }),
      revoked: fc.boolean(),
      // Read a moment ago, or so long ago that it is too old to be kept.
      ageMs: fc.constantFrom(0, 1000, 2000, 60_000, recordTtlMs + 60_000),
    }),
    { minLength: 1, maxLength: 12 },
  )

  /** What was found to be different, if anything. */
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

  test('of several records of a key, in whatever order they come', { timeout: 60_000 }, async () => {
    expect(await differenceOf(storeRecordScript)).toBeUndefined()
  })

  test('the control: a script that keeps whatever comes last is noticed', { timeout: 60_000 }, async () => {
    const last = "return redis.call('SET', KEYS[1], ARGV[1], 'PXAT', ARGV[2])"
    // Of what was found, and not that the script failed.
    expect(await differenceOf(last, 7)).toContain('to deeply equal')
  })
})

function stateOf(record: ReturnType<RedisModel['find']>) {
  return record === undefined
    ? undefined
    : { version: record.version, tenantVersion: record.tenantVersion, revoked: record.revoked, readAt: record.readAt }
}
