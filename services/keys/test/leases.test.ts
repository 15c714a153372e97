import { internalPaths, leaseAnswerSchema, leaseMs } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { answerLease } from '../src/revocation/lease.ts'
import { forgetAfterMs, openLeaseWatch } from '../src/revocation/lease-watch.ts'
import { pruneLog } from '../src/revocation/store.ts'
import {
  type KeysUnderTest,
  LeaseHolder,
  gatewayPrincipal,
  newKey,
  newTenant,
  revoke,
  sql,
  startKeys,
  whileLeased,
} from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

async function leaseOf({ gateway }: LeaseHolder) {
  const [row] = await service.asSuperuser.system(
    async (tx) =>
      await tx.query<{ acked: number; left_ms: number }>(
        sql(
          `select acked::float8, (extract(epoch from lease_until - clock_timestamp()) * 1000)::float8 as left_ms
             from keys.gateway_lease where gateway = $1`,
          gateway,
        ),
      ),
  )
  return row
}

async function revokeOne() {
  const admin = await newTenant(service)
  const key = await newKey(service, admin)
  await revoke(service, admin, key.id)
  return key
}

async function countOf(request: object): Promise<number | undefined> {
  return leaseAnswerSchema.parse((await service.ask(internalPaths.leases, request)).json).gateways
}

test('a lease response contains the number of leases if the gateway requests it', async () => {
  const body = { gateway: crypto.randomUUID(), name: 'x', cursor: null, mark: null }
  await whileLeased(async () => {
    const gateways = [await new LeaseHolder(service.ask).take(), await new LeaseHolder(service.ask).take()]
    expect(await countOf({ ...body, counts: true })).toBe(2)
    for (const gateway of gateways) await gateway.release()
    expect(await countOf({ ...body, counts: true })).toBe(0)
  })
  expect(await countOf(body)).toBeUndefined()
})

describe('a lease is refused', () => {
  test('to callers that are not gateways', async () => {
    const body = { gateway: crypto.randomUUID(), name: 'x', cursor: null, mark: null }
    expect((await service.stranger.call(gatewayPrincipal, 'POST', internalPaths.leases, { body })).status).toBe(401)
    const admin = await newTenant(service)
    expect((await service.call(admin, 'POST', internalPaths.leases, { body })).status).toBe(401)
    expect((await service.operate('POST', internalPaths.leases, { body })).status).toBe(401)
    expect((await service.ask(internalPaths.leases, body)).status).toBe(200)
  })

  test.each([
    { gateway: 'one', name: 'x', cursor: null, mark: null },
    { gateway: crypto.randomUUID(), name: 'x'.repeat(101), cursor: null },
    { gateway: crypto.randomUUID(), name: 'x', cursor: -1 },
    { gateway: crypto.randomUUID(), name: 'x', cursor: 1.5 },
    { gateway: crypto.randomUUID(), name: 'x' },
    { gateway: crypto.randomUUID(), name: 'x', cursor: 1, mark: 'x' },
  ])('to an invalid request: %j', async (body) => {
    expect((await service.ask(internalPaths.leases, body)).status).toBe(422)
  })

  test('to a gateway without a cursor, which receives the log first', async () => {
    const { hash } = await revokeOne()
    const gateway = new LeaseHolder(service.ask)
    const answer = await gateway.renew()
    expect(answer).toMatchObject({ granted: false, reset: false })
    expect(answer.revocations).toContainEqual({ kind: 'key', seq: answer.cursor, hash, version: 2, revoked: true })
    expect(await leaseOf(gateway)).toBeUndefined()
    expect((await gateway.renew()).granted).toBe(true)
  })

  test('to a lagging gateway, which receives the missing entries and keeps its current lease', async () => {
    const gateway = await new LeaseHolder(service.ask).take()
    const before = await leaseOf(gateway)
    const lagging = gateway.cursor ?? 0
    const [{ hash }] = [await revokeOneWithout(gateway)]
    const answer = await gateway.renew({ apply: false })
    expect(answer).toMatchObject({ granted: false, reset: false, revocations: [{ hash, seq: lagging + 1 }] })
    const after = await leaseOf(gateway)
    expect(after?.acked).toBe(before?.acked)
    expect(after?.left_ms).toBeLessThan(before?.left_ms ?? 0)
    gateway.cursor = answer.cursor
    gateway.mark = answer.mark
    expect((await gateway.renew()).granted).toBe(true)
    await gateway.release()
  })

  test('to a gateway ahead of the log after a restored backup, which receives `reset`', async () => {
    const gateway = await new LeaseHolder(service.ask).take()
    await gateway.release()
    const at = gateway.cursor ?? 0
    gateway.cursor = at + 1000
    const answer = await gateway.renew()
    expect(answer).toMatchObject({ granted: false, reset: true, cursor: at })
    expect((await gateway.renew()).granted).toBe(true)
    await gateway.release()
  })

  test('to a gateway with an entry that a new primary lost and whose number it assigned again', async () => {
    const gateway = await new LeaseHolder(service.ask).take()
    await revokeOneWithout(gateway)
    await gateway.renew()
    const known = gateway.cursor
    await loseLastEntry()
    const { hash } = await revokeOneWithout(gateway)
    const answer = await gateway.renew({ apply: false })
    expect(answer).toMatchObject({ granted: false, reset: true, cursor: known })
    expect(answer.revocations.at(-1)).toMatchObject({ seq: known, hash })
    // No revoke may count it as confirmed.
    expect((await leaseOf(gateway))?.acked).toBeLessThan(known ?? 0)
    // Nor after further entries.
    await revokeOneWithout(gateway)
    expect(await gateway.renew({ apply: false })).toMatchObject({ granted: false, reset: true })
    expect((await leaseOf(gateway))?.acked).toBeLessThan(known ?? 0)
    gateway.cursor = null
    gateway.mark = null
    await gateway.take()
    await gateway.release()
  })

  test('without comparing marks if the log no longer knows the mark', async () => {
    const gateway = await new LeaseHolder(service.ask).take()
    await revokeOneWithout(gateway)
    await service.asSuperuser.system(
      async (tx) => await tx.execute(sql('update keys.revocation set mark_before = null')),
    )
    const answer = await gateway.renew()
    expect(answer).toMatchObject({ granted: false, reset: false })
    expect((await gateway.renew()).granted).toBe(true)
    await gateway.release()
  })

  test('to a gateway whose cursor is older than the log, which receives the whole log', async () => {
    const gateway = await new LeaseHolder(service.ask).take()
    await gateway.release()
    await revokeOne()
    const prune = async (upTo: number, server?: string) =>
      await service.asService.system(async (tx) => await pruneLog(tx, { upTo, server, limit: 10_000 }))
    const { seq, server } = await prune(0)
    await prune(seq, server)
    const { hash } = await revokeOne()
    const answer = await gateway.renew()
    expect(answer).toMatchObject({ granted: false, reset: true })
    expect(answer.revocations).toMatchObject([{ hash }])
    expect((await gateway.renew()).granted).toBe(true)
    await gateway.release()
  })

  test('until several responses have delivered all missing entries without gaps', async () => {
    const gateway = await new LeaseHolder(service.ask).take()
    await gateway.release()
    const hashes = [(await revokeOne()).hash, (await revokeOne()).hash, (await revokeOne()).hash]
    const told: string[] = []
    const leaseWatch = { pollNow: () => undefined, untilApplied: async () => undefined, close: async () => undefined }
    let cursor = gateway.cursor
    for (let round = 0; round < 3; round += 1) {
      const request = { gateway: gateway.gateway, name: 'x', cursor, mark: null }
      const answer = await answerLease({ db: service.asService, leaseWatch }, request, 2)
      if (round < 2) expect(answer.granted).toBe(false)
      told.push(...answer.revocations.flatMap((entry) => (entry.kind === 'key' ? [entry.hash] : [])))
      cursor = answer.cursor
    }
    expect(told).toEqual(hashes)
  })
})

/** Simulates a standby that takes over without the last entry. */
async function loseLastEntry(): Promise<void> {
  await service.asSuperuser.system(async (tx) => {
    const [lost] = await tx.query<{ seq: string; mark: string }>(
      sql(
        `delete from keys.revocation where seq = (select seq from keys.revocation_seq)
         returning seq, mark_before as mark`,
      ),
    )
    await tx.execute(sql('update keys.revocation_seq set seq = $1::bigint - 1, mark = $2', lost?.seq, lost?.mark))
    await tx.execute(sql('update keys.gateway_lease set acked = least(acked, $1::bigint - 1)', lost?.seq))
  })
}

async function revokeOneWithout(gateway: LeaseHolder) {
  // The revoke waits for the gateway, so its lease is removed for the moment.
  const admin = await newTenant(service)
  const key = await newKey(service, admin)
  await service.asService.write(
    service.assertionOf(admin.tenantId),
    async (tx) =>
      await tx.execute(
        sql(
          `update keys.api_key set revoked_at = now(), revoked_by_type = 'user', revoked_by_id = 'x', revoked_by_label = ''
            where id = $1`,
          key.id,
        ),
      ),
  )
  expect(await leaseOf(gateway)).toBeDefined()
  return key
}

test('a long log is delivered in several responses, and only the missing part is read', async () => {
  const entries = 5001
  await service.asSuperuser.system(async (tx) => {
    await tx.execute(
      sql(
        `insert into keys.revocation (seq, kind, tenant_id, version, revoked)
         select c.seq + n, 'tenant', gen_random_uuid(), 1, false
           from keys.revocation_seq as c, generate_series(1, $1) as n`,
        entries,
      ),
    )
    await tx.execute(sql('update keys.revocation_seq set seq = seq + $1', entries))
    await tx.execute(sql('analyze keys.revocation'))
  })
  const gateway = new LeaseHolder(service.ask)
  const first = await gateway.renew()
  expect([first.granted, first.revocations.length]).toEqual([false, 5000])
  const rest = await gateway.renew()
  expect([rest.granted, rest.revocations.length > 0]).toEqual([false, true])
  expect((await gateway.renew()).granted).toBe(true)
  await gateway.release()

  const looked = await service.asSuperuser.system(async (tx) => {
    await tx.query(sql('select from keys.follow_log($1, null, 5000)', (gateway.cursor ?? 0) - 1))
    const [row] = await tx.query<{ rows: number }>(
      sql(
        `select (seq_tup_read + idx_tup_fetch)::float8 as rows
           from pg_stat_xact_user_tables where relid = 'keys.revocation'::regclass`,
      ),
    )
    return row?.rows
  })
  expect(looked).toBeLessThan(10)
})

describe('a lease', () => {
  test('ends `leaseMs` after its grant on the database clock', async () => {
    const gateway = await new LeaseHolder(service.ask).take()
    const lease = await leaseOf(gateway)
    expect(lease?.left_ms).toBeLessThanOrEqual(leaseMs)
    expect(lease?.left_ms).toBeGreaterThan(0)
    await gateway.release()
    expect((await leaseOf(gateway))?.left_ms).toBeLessThanOrEqual(0)
  })

  test('is committed before the log is read in another transaction', async () => {
    const steps: string[] = []
    const db = {
      ...service.asService,
      system: async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
        const result = await service.asService.system(
          async (tx) =>
            await work({
              query: async (statement) => {
                steps.push(statement.name ?? '')
                return await tx.query(statement)
              },
              execute: async (statement) => await tx.execute(statement),
            }),
        )
        steps.push('commit')
        return result
      },
    }
    const leaseWatch = { pollNow: () => undefined, untilApplied: async () => undefined, close: async () => undefined }
    await answerLease({ db, leaseWatch }, { gateway: crypto.randomUUID(), name: 'x', cursor: 0, mark: null })
    expect(steps).toEqual(['keys_renew_lease', 'commit', 'keys_read_log', 'commit'])
  })

  test('acknowledges entries with its cursor, never backwards, even without a new grant', async () => {
    const gateway = await new LeaseHolder(service.ask).take()
    const first = gateway.cursor ?? 0
    await revokeOneWithout(gateway)
    await gateway.renew()
    await revokeOneWithout(gateway)
    // It applied the first entry but not the second: it gets no lease, but the first is confirmed.
    expect((await gateway.renew({ apply: false })).granted).toBe(false)
    expect((await leaseOf(gateway))?.acked).toBe(first + 1)
    gateway.cursor = first
    gateway.mark = null
    await gateway.renew({ apply: false })
    expect((await leaseOf(gateway))?.acked).toBe(first + 1)
    await gateway.release()
  })
})

test('the service becomes ready when PostgreSQL has its schema', async () => {
  expect(await isReady()).toEqual([200, { status: 'ok', database: expect.stringMatching(/^[0-9a-f]{16}$/) }])
  await rename('keys', 'keys_away')
  try {
    expect(await isReady()).toEqual([503, { status: 'unavailable', reason: 'NotMigratedError' }])
  } finally {
    await rename('keys_away', 'keys')
  }
  expect((await isReady())[0]).toBe(200)
})

async function isReady(): Promise<[number, unknown]> {
  const answer = await fetch(`${service.url}/internal/health/ready`)
  return [answer.status, await answer.json()]
}

async function rename(from: string, to: string): Promise<void> {
  await service.asSuperuser.system(async (tx) => await tx.execute(sql(`alter schema ${from} rename to ${to}`)))
}

test('a gateway without new grants is deleted by the clock of a replica, and an active one is not', async () => {
  const [gone, lively] = [await new LeaseHolder(service.ask).take(), await new LeaseHolder(service.ask).take()]
  let now = 0
  const watch = openLeaseWatch({ db: service.asService, now: () => now })
  await expect
    .poll(
      async () => {
        await lively.renew()
        now += forgetAfterMs
        return await leaseOf(gone)
      },
      { interval: 20, timeout: 20_000 },
    )
    .toBeUndefined()
  expect(await leaseOf(lively)).toBeDefined()
  await watch.close()
  await lively.release()
})
