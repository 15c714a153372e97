import { changeSchema, findingSchema, logCheckpointSchema, logEntrySchema } from '@postern/contracts'
import { verifyExport } from '@postern/log-chain'
import type { Tx } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { appendEntries } from '../src/tracker-log/store.ts'
import {
  type FindingsUnderTest,
  type Principal,
  findingBody,
  newTenant,
  openFinding,
  path,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => (service = await startFindings()))
afterAll(async () => await service.close())

const all = '/api/v1/remediation-log'
const feed = '/api/v1/changes?follow=true'
const readLog = z.array(logEntrySchema)
const readKeys = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) })

async function get(tenant: Principal, target: string) {
  const answer = await service.call(tenant, 'GET', target)
  expect(answer.status, answer.text).toBe(200)
  return answer
}

const logBehind = async (tenant: Principal, position: number) =>
  readLog.parse((await get(tenant, `${all}?since_seq=${position}&limit=1000`)).json)

async function changesBehind(tenant: Principal, target: string) {
  const { json, headers } = await get(tenant, target)
  const next = /^<([^>]+)>; rel="next"$/.exec(headers['link'] ?? '')?.[1] ?? ''
  return { changes: z.array(changeSchema).parse(json), next }
}

const note = async (tenant: Principal, id: string, headers = {}) =>
  await service.call(tenant, 'POST', `${path}/${id}/log`, { body: { body: 'Called the owner.' }, headers })

const asTenant = async <T>(tenant: Principal, work: (tx: Tx) => Promise<T>): Promise<T> =>
  await service.asService.write(service.assertionOf(tenant.tenantId), work)

const actor = { type: 'api_key', id: 'k', label: 'A key' } as const
const append = async (tx: Tx, findingId: string) => await appendEntries(tx, actor, [{ findingId, kind: 'note' }])

/** Writes an entry that no process seals, as after a crash. */
const leaveUnsealed = async (tenant: Principal, id: string) =>
  await asTenant(tenant, async (tx) => await append(tx, id))

/** Verifies the tenant's whole log with its current checkpoint. */
async function verified(tenant: Principal) {
  const { jws } = logCheckpointSchema.parse((await get(tenant, `${all}/checkpoint`)).json)
  const lines = (await logBehind(tenant, 0)).map((entry) => JSON.stringify(entry))
  return await verifyExport(lines, [jws], readKeys.parse((await get(newTenant([]), `${all}/keys`)).json))
}

describe('clients of one tenant that write at once', () => {
  test('all succeed, and a follower gets every change in order', async () => {
    const tenant = newTenant()
    const writing = { is: true }
    const statuses: number[] = []
    const writers = Array.from({ length: 48 }, async () => {
      for (let turn = 0; turn < 4; turn += 1) {
        const { status, json } = await service.call(tenant, 'POST', path, { body: findingBody() })
        statuses.push(status)
        if (turn === 1) statuses.push((await note(tenant, findingSchema.parse(json).id)).status)
      }
    })
    const followLog = async () => {
      const seen: number[] = []
      for (let isLast = false; !isLast;) {
        isLast = !writing.is
        seen.push(...(await logBehind(tenant, seen.length)).map(({ position }) => position))
      }
      return seen
    }
    const followFeed = async () => {
      const seen: string[] = []
      let next = feed
      for (let isLast = false; !isLast;) {
        isLast = !writing.is
        for (let length = 1; length > 0;) {
          const page = await changesBehind(tenant, next)
          ;({ next } = page)
          length = page.changes.length
          seen.push(...page.changes.filter(({ kind }) => kind === 'finding').map(({ id }) => id))
        }
      }
      return seen
    }
    const [positions, found] = await Promise.all([
      followLog(),
      followFeed(),
      Promise.all(writers).finally(() => (writing.is = false)),
    ])
    expect(new Set(statuses)).toEqual(new Set([201]))
    const entries = 48 * 5
    expect(positions).toEqual(Array.from({ length: entries }, (_none, at) => at + 1))
    expect(await logBehind(tenant, 0)).toHaveLength(entries)
    expect(found).toHaveLength(48 * 4)
    expect(new Set(found).size).toBe(48 * 4)
    // The references have no gap either.
    const references = z
      .array(z.object({ reference: z.string() }))
      .parse((await get(tenant, `${path}?limit=1000&fields=reference`)).json)
      .map(({ reference }) => Number(reference.slice(-4)))
    expect(references.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 48 * 4 }, (_none, at) => at + 1))
    expect(await verified(tenant)).toMatchObject({ isIntact: true, entries, checkpoints: [{ outcome: 'agrees' }] })
  })

  test('do not wait for a slow commit', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    const [held, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    // The transaction has done everything except to commit.
    const slow = asTenant(tenant, async (tx) => {
      await append(tx, id)
      await tx.execute({
        text: `insert into findings.finding (tenant_id, year, number, title, condition, severity, type, status, identified_on,
            target_on, created_by_type, created_by_id, created_by_label)
          values (tenancy.tenant_id(), 2000, 1, 'x', 'x', 'low', 'observation', 'draft', current_date, current_date,
            'api_key', 'k', 'l')`,
        values: [],
      })
      await tx.execute({ text: 'set constraints all immediate', values: [] })
      held.resolve()
      await mayEnd.promise
    })
    await held.promise
    const answers = await Promise.all(
      Array.from({ length: 8 }, async () => await service.call(tenant, 'POST', path, { body: findingBody() })),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 201))
    const before = await logBehind(tenant, 0)
    const seen = await changesBehind(tenant, feed)
    mayEnd.resolve()
    await slow.catch(() => undefined)
    // A late commit gets a later position.
    const after = await logBehind(tenant, 0)
    expect(after.slice(0, before.length)).toEqual(before)
    expect(after).toHaveLength(before.length + 1)
    expect((await changesBehind(tenant, seen.next)).changes.map(({ kind }) => kind).toSorted()).toEqual([
      'finding',
      'log_entry',
    ])
    expect(await verified(tenant)).toMatchObject({ isIntact: true, checkpoints: [{ outcome: 'agrees' }] })
  })

  test('reuse the references of failed creations', async () => {
    const tenant = newTenant()
    const body = findingBody({ external_id: 'X' })
    const answers = await Promise.all(
      Array.from({ length: 12 }, async () => await service.call(tenant, 'POST', path, { body })),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, ...Array.from({ length: 11 }, () => 409)])
    const made = await Promise.all(Array.from({ length: 12 }, async () => await openFinding(service, tenant)))
    const first = findingSchema.parse(answers.find(({ status }) => status === 201)?.json)
    const numbers = [first, ...made].map(({ reference }) => Number(reference.slice(-4)))
    expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 13 }, (_none, at) => at + 1))
  })

  test('see their writes in the log, its checkpoint and the feed as soon as they get a response', async () => {
    const tenant = newTenant()
    for (let turn = 1; turn <= 5; turn += 1) {
      const { id } = await openFinding(service, tenant)
      expect((await logBehind(tenant, turn - 1)).map(({ finding_id }) => finding_id)).toEqual([id])
      expect(logCheckpointSchema.parse((await get(tenant, `${all}/checkpoint`)).json).position).toBe(turn)
      const { next } = await changesBehind(tenant, `${feed}&since=now`)
      expect((await changesBehind(tenant, next)).changes).toEqual([])
      const { changes } = await changesBehind(tenant, feed)
      expect(changes.filter(({ kind }) => kind === 'finding').map((change) => change.id)).toContain(id)
    }
  })

  test('get the same response with its position when they repeat an entry', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    const headers = { 'idempotency-key': crypto.randomUUID() }
    const first = await note(tenant, id, headers)
    const again = await note(tenant, id, headers)
    expect([first.status, logEntrySchema.parse(first.json).position]).toEqual([201, 2])
    expect([again.status, again.text]).toEqual([201, first.text])
    expect(again.headers['idempotent-replayed']).toBe('true')
  })
})

describe('entries that a process left unsealed', () => {
  test('are sealed by the next request that reads the log', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    await leaveUnsealed(tenant, id)
    // The chain of the finding does not need positions.
    expect((await get(tenant, `${path}/${id}/log/verify`)).json).toMatchObject({ is_intact: true, entries: 2 })
    expect((await logBehind(tenant, 0)).map(({ position, seq }) => [position, seq])).toEqual([
      [1, 1],
      [2, 2],
    ])
    await leaveUnsealed(tenant, id)
    expect(readLog.parse((await get(tenant, `${path}/${id}/log`)).json)).toHaveLength(3)
    await leaveUnsealed(tenant, id)
    const { log } = z.object({ log: readLog }).parse((await get(tenant, `${path}/${id}?expand=log`)).json)
    expect(log).toHaveLength(4)
    await leaveUnsealed(tenant, id)
    expect(await verified(tenant)).toMatchObject({ isIntact: true, entries: 5, checkpoints: [{ outcome: 'agrees' }] })
  })

  test('are sealed after the next write', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    await leaveUnsealed(tenant, id)
    expect(logEntrySchema.parse((await note(tenant, id)).json)).toMatchObject({ position: 3, seq: 3 })
    const waiting = 'select from findings.tracker_log where tenant_id = $1 and position < 0'
    await leaveUnsealed(tenant, id)
    await openFinding(service, tenant)
    await expect
      .poll(
        async () =>
          await service.asSuperuser.system(async (tx) => tx.query({ text: waiting, values: [tenant.tenantId] })),
      )
      .toEqual([])
  })

  test('are sealed exactly once even if the sealer is killed halfway', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    await note(tenant, id)
    const lock = `hashtextextended('findings.tracker_log ' || $1, 0)`
    const [writing, killed] = await service.asSuperuser.system(async (tx) => {
      await tx.query({ text: `select pg_advisory_xact_lock(${lock})`, values: [tenant.tenantId] })
      const answer = note(tenant, id)
      const sealer = async () => {
        const text = `select pid from pg_locks where locktype = 'advisory' and not granted and (classid, objid) = (
          select classid, objid from pg_locks where locktype = 'advisory' and granted and pid = pg_backend_pid() limit 1)`
        const [waiting] = await tx.query<{ pid: number }>({ text, values: [] })
        return waiting?.pid
      }
      await expect.poll(sealer, { interval: 10 }).toBeGreaterThan(0)
      const pid = await sealer()
      return [
        answer,
        await tx.query<{ ended: boolean }>({ text: 'select pg_terminate_backend($1) as ended', values: [pid] }),
      ]
    })
    expect(killed).toEqual([{ ended: true }])
    expect(logEntrySchema.parse((await writing).json)).toMatchObject({ position: 3, seq: 3 })
    expect((await logBehind(tenant, 0)).map(({ position }) => position)).toEqual([1, 2, 3])
    expect(await verified(tenant)).toMatchObject({ isIntact: true, checkpoints: [{ outcome: 'agrees' }] })
  })

  test('keep the order of their finding in the chain of the tenant', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    await get(tenant, all)
    /** Appends two entries, and places the one that came first or last. */
    const place = async (which: 'first' | 'last') =>
      await asTenant(tenant, async (tx) => {
        await append(tx, id)
        await append(tx, id)
        return await tx.execute({
          text: `update findings.tracker_log set position = 7
            where position = (
              select l.position from findings.tracker_log l
              where l.position < 0 order by l.arrived_at ${which === 'first' ? '' : 'desc'} limit 1)`,
          values: [],
        })
      })
    await expect(place('last')).rejects.toMatchObject({ constraint: 'tracker_log_chain' })
    // The control: any requested position becomes the next one.
    expect(await place('first')).toBe(1)
    expect((await logBehind(tenant, 0)).map(({ position, seq }) => [position, seq])).toEqual([
      [1, 1],
      [2, 2],
      [3, 3],
    ])
  })

  test('that were changed before sealing are detected when the export is verified', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    await note(tenant, id)
    const { jws } = logCheckpointSchema.parse((await get(tenant, `${all}/checkpoint`)).json)
    const keys = readKeys.parse((await get(newTenant([]), `${all}/keys`)).json)
    const lines = (await logBehind(tenant, 0)).map((entry) => JSON.stringify(entry))
    const [first = '', second = ''] = lines
    const faultsOf = async (...changed: string[]) => await verifyExport(changed, [jws], keys)
    expect(await faultsOf(first, second)).toMatchObject({ isIntact: true })
    expect(await faultsOf(first, second.replace('Called', 'Forgot'))).toMatchObject({ faults: [{ line: 2 }] })
    expect(await faultsOf(first, second.replace('"position":2', '"position":3'))).toMatchObject({
      faults: [{ line: 2 }],
    })
    expect(await faultsOf(first)).toMatchObject({ isIntact: false, checkpoints: [{ outcome: 'beyond-export' }] })
  })
})
