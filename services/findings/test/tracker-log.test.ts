import {
  findingSchema,
  logCheckpointSchema,
  logEntrySchema,
  logVerificationSchema,
  problemSchema,
} from '@postern/contracts'
import { verifyExport } from '@postern/log-chain'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type FindingsUnderTest, type Principal, findingBody, newTenant, path, startFindings } from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const all = '/api/v1/remediation-log'
const readLog = z.array(logEntrySchema)
const readKeys = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) })

async function aFinding(tenant: Principal) {
  return findingSchema.parse((await service.call(tenant, 'POST', path, { body: findingBody() })).json)
}

async function note(tenant: Principal, id: string, body: object = { body: 'Called the owner.' }) {
  return await service.call(tenant, 'POST', `${path}/${id}/log`, { body })
}

async function get(tenant: Principal, target: string) {
  return (await service.call(tenant, 'GET', target)).json
}

async function keys() {
  return readKeys.parse(await get(newTenant([]), `${all}/keys`))
}

describe('an entry of the tracker log', () => {
  test('is rejected without write:findings', async () => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    expect((await note({ ...tenant, scopes: ['read:findings'] }, id)).status).toBe(403)
  })

  test.each(['PUT', 'PATCH', 'DELETE'])('has no %s', async (method) => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    expect((await service.call(tenant, method, `${path}/${id}/log`)).status).toBe(404)
  })

  test("for another tenant's finding returns 404", async () => {
    const { id } = await aFinding(newTenant())
    expect((await note(newTenant(), id)).status).toBe(404)
  })

  test.each([
    ['nothing', {}, '/body'],
    ['spaces', { body: '  ' }, '/body'],
    ['a kind that only the service writes', { kind: 'status_change', body: 'x' }, '/kind'],
    ['changes', { body: 'x', changes: [] }, '/changes'],
    ['a correction of nothing', { kind: 'correction', body: 'x' }, '/corrects_seq'],
    ['a correction of what is not there', { kind: 'correction', body: 'x', corrects_seq: 2 }, '/corrects_seq'],
    ['a link to evidence that names none', { kind: 'evidence_linked', body: 'x' }, '/evidence_refs'],
    ['what will happen', { body: 'x', occurred_at: '2999-01-01T00:00:00Z' }, '/occurred_at'],
    ['what happened in no year', { body: 'x', occurred_at: '0000-01-01T00:00:00Z' }, '/occurred_at'],
  ])('with %s is rejected with a pointer to the error', async (_what, body, pointer) => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    const answer = await note(tenant, id, body)
    expect(answer.status, answer.text).toBe(422)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.pointer)).toContain(pointer)
    expect(readLog.parse(await get(tenant, `${path}/${id}/log`))).toHaveLength(1)
  })

  test('stores what happened, when, its author and on whose behalf', async () => {
    const tenant = newTenant()
    const { id, created_by: actor } = await aFinding(tenant)
    const occurred_at = '2026-01-02T03:04:05.678Z'
    const answer = await note(tenant, id, {
      kind: 'escalation',
      body: 'To the board.',
      occurred_at,
      on_behalf_of: 'Cleo',
    })
    expect(answer.status).toBe(201)
    const entry = logEntrySchema.parse(answer.json)
    expect(entry).toMatchObject({ seq: 2, kind: 'escalation', occurred_at, on_behalf_of: 'Cleo', actor })
    expect(await get(tenant, answer.headers['location'] ?? '')).toEqual([entry])
    const correction = await note(tenant, id, { kind: 'correction', body: 'To the audit committee.', corrects_seq: 2 })
    expect(logEntrySchema.parse(correction.json)).toMatchObject({ seq: 3, corrects_seq: 2, prev_hash: entry.hash })
  })

  test('links evidence to the finding', async () => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    const evidence_refs = [{ evidence_id: crypto.randomUUID(), sha256: 'a'.repeat(64), size: 10 }]
    const answer = await note(tenant, id, { kind: 'evidence_linked', body: 'The access review.', evidence_refs })
    expect(answer.status, answer.text).toBe(201)
    expect(await get(tenant, `${path}/${id}/log?kind=evidence_linked`)).toMatchObject([{ seq: 2, evidence_refs }])
  })

  test('does not change the version of the finding', async () => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    await note(tenant, id)
    expect(findingSchema.parse(await get(tenant, `${path}/${id}`)).version).toBe(1)
  })

  test('returns only finding and number to a caller that cannot read', async () => {
    const tenant = newTenant(['write:findings'])
    const { id } = await aFinding({ ...tenant, scopes: ['read:findings', 'write:findings'] })
    expect((await note(tenant, id)).json).toEqual({ finding_id: id, seq: 2 })
  })
})

describe('the tracker log', () => {
  test('has one chain without gaps under concurrent writes', async () => {
    const tenant = newTenant()
    const findings = await Promise.all([aFinding(tenant), aFinding(tenant)])
    await Promise.all(
      Array.from({ length: 20 }, async (_, n) =>
        expect((await note(tenant, findings[n % 2]?.id ?? '')).status).toBe(201),
      ),
    )
    for (const { id } of findings) {
      const log = readLog.parse(await get(tenant, `${path}/${id}/log`))
      expect(log.map(({ seq }) => seq)).toEqual(Array.from({ length: 11 }, (_, n) => n + 1))
      expect(logVerificationSchema.parse(await get(tenant, `${path}/${id}/log/verify`))).toEqual({
        finding_id: id,
        is_intact: true,
        entries: 11,
        last_hash: log.at(-1)?.hash,
        fault: null,
      })
    }
    const entries = readLog.parse(await get(tenant, all))
    expect(entries.map(({ position }) => position)).toEqual(Array.from({ length: 22 }, (_, n) => n + 1))
  })

  test('can be paged and filtered by number, kind and actor', async () => {
    const tenant = newTenant()
    const { id, created_by } = await aFinding(tenant)
    for (let n = 0; n < 4; n += 1) await note(tenant, id)
    const first = await service.call(tenant, 'GET', `${path}/${id}/log?limit=2&count=true`)
    expect(first.headers['x-total-count']).toBe('5')
    const next = /^<([^>]+)>/.exec(first.headers['link'] ?? '')?.[1] ?? ''
    const seqs = async (target: string) => readLog.parse(await get(tenant, target)).map(({ seq }) => seq)
    expect(await seqs(next)).toEqual([3, 4])
    expect(await seqs(`${path}/${id}/log?after_seq=3`)).toEqual([4, 5])
    expect(await seqs(`${path}/${id}/log?kind=created`)).toEqual([1])
    expect(await seqs(`${all}?since_seq=4`)).toEqual([5])
    expect(await seqs(`${all}?since=4`)).toEqual([5])
    expect(await seqs(`${all}?since=4&since_seq=4`)).toEqual([5])
    const both = await service.call(tenant, 'GET', `${all}?since=4&since_seq=3`)
    expect([both.status, both.json]).toMatchObject([400, { errors: [{ parameter: 'since_seq' }] }])
    expect(await seqs(`${all}?actor=${created_by.id}&limit=1`)).toEqual([1])
    expect(await seqs(`${all}?actor=nobody`)).toEqual([])
    expect((await service.call(newTenant(), 'GET', next)).status).toBe(400)
    expect((await service.call(newTenant(), 'GET', `${path}/${id}/log`)).status).toBe(404)
    expect(await get(newTenant(), all)).toEqual([])
  })

  test('verification finds an entry that was changed in the database', async () => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    for (let n = 0; n < 3; n += 1) await note(tenant, id)
    await service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
      await tx.execute({
        text: `update findings.tracker_log set entry = replace(entry, 'Called', 'Forgot') where finding_id = $1 and seq = 3`,
        values: [id],
      })
    })
    expect(await get(tenant, `${path}/${id}/log/verify`)).toMatchObject({
      is_intact: false,
      entries: 2,
      fault: { seq: 3, problem: 'content' },
    })
    expect((await service.call(newTenant(), 'GET', `${path}/${id}/log/verify`)).status).toBe(404)
  })
})

describe('a log with an invalid row', () => {
  test.each([
    ['no JSON', 'not JSON'],
    ['JSON that is no object', '"text"'],
    ['an entry of another form', '{"seq":2}'],
    ['nothing', 'null'],
  ])('%s: verification reports the entry and does not fail', async (_what, entry) => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    await note(tenant, id)
    await service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
      await tx.execute({
        text: 'update findings.tracker_log set entry = $2 where finding_id = $1 and seq = 2',
        values: [id, entry],
      })
    })
    expect(await get(tenant, `${path}/${id}/log/verify`)).toMatchObject({
      is_intact: false,
      entries: 1,
      fault: { seq: 2, problem: 'content' },
    })
  })
})

describe('a checkpoint', () => {
  test('detects a later rewrite of the log with only the export and the public key', async () => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    await note(tenant, id)
    const { jws, position } = logCheckpointSchema.parse(await get(tenant, `${all}/checkpoint`))
    expect(position).toBe(2)
    await note(tenant, id)
    const lines = async () => readLog.parse(await get(tenant, all)).map((entry) => JSON.stringify(entry))
    const genuine = await verifyExport(await lines(), [jws], await keys())
    expect(genuine).toMatchObject({ isIntact: true, entries: 3, checkpoints: [{ outcome: 'agrees' }] })
    expect(genuine.checkpoints[0]?.checkpoint).toMatchObject({ tenant: tenant.tenantId, position: 2 })

    // The owner of the database could rewrite the whole chain.
    await service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
      await tx.execute({
        text: `with changed as (
            select position, replace(entry, 'Called', 'Forgot') as entry from findings.tracker_log where tenant_id = $1 and seq = 2
          )
          update findings.tracker_log l set entry = changed.entry,
            hash = encode(sha256(convert_to(changed.entry, 'UTF8')), 'hex')
          from changed where l.tenant_id = $1 and l.position = changed.position`,
        values: [tenant.tenantId],
      })
      await tx.execute({
        text: 'delete from findings.tracker_log where tenant_id = $1 and seq = 3',
        values: [tenant.tenantId],
      })
    })
    const rewritten = await verifyExport(await lines(), [jws], await keys())
    expect(rewritten).toMatchObject({ isIntact: false, faults: [], checkpoints: [{ outcome: 'contradicts' }] })
  })

  test('of each day is stored by the first write of the next day', async () => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    expect((await service.call(tenant, 'GET', `${all}/checkpoint?day=2999-01-01`)).status).toBe(404)
    await service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
      await tx.execute({
        text: "update findings.tracker_log set recorded_at = '2026-05-04T10:00:00Z' where tenant_id = $1",
        values: [tenant.tenantId],
      })
    })
    await note(tenant, id)
    const kept = logCheckpointSchema.parse(await get(tenant, `${all}/checkpoint?day=2026-05-05`))
    expect(kept).toMatchObject({ day: '2026-05-04', position: 1 })
    const log = readLog.parse(await get(tenant, all)).map((entry) => JSON.stringify(entry))
    expect((await verifyExport(log, [kept.jws], await keys())).checkpoints[0]?.outcome).toBe('agrees')
    expect((await service.call(tenant, 'GET', `${all}/checkpoint?day=0001-01-01`)).status).toBe(404)
    expect((await service.call(newTenant(), 'GET', `${all}/checkpoint?day=2026-05-05`)).status).toBe(404)
  })

  test('of a finished day exists even without later writes, and never changes', async () => {
    const tenant = newTenant()
    const { id } = await aFinding(tenant)
    await note(tenant, id)
    const moved = async (day: string, from: number) => {
      await service.asSuperuser.system(async (tx) => {
        await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
        await tx.execute({
          text: `update findings.tracker_log set recorded_at = $2::timestamptz where tenant_id = $1 and position >= $3`,
          values: [tenant.tenantId, `${day}T10:00:00Z`, from],
        })
      })
    }
    const of = async (day: string) => await get(tenant, `${all}/checkpoint?day=${day}`)
    const stored = async () =>
      await service.asSuperuser.system(async (tx) =>
        tx.query<{ day: string }>({
          text: 'select day, position::integer from findings.log_checkpoint where tenant_id = $1 order by day',
          values: [tenant.tenantId],
        }),
      )
    await moved('2026-05-04', 1)
    await moved('2026-05-06', 2)
    expect((await service.call(tenant, 'GET', `${all}/checkpoint?day=2026-05-03`)).status).toBe(404)
    expect(await stored()).toEqual([])
    // Concurrent requests sign a day once. A day without writes returns the day before.
    const [first, ...others] = await Promise.all([of('2026-05-04'), of('2026-05-04'), of('2026-05-05')])
    expect(first).toMatchObject({ day: '2026-05-04', position: 1 })
    expect(others).toEqual([first, first])
    expect(await of('2026-05-06')).toMatchObject({ day: '2026-05-06', position: 2 })
    expect(await of('2999-01-01')).toEqual(await of('2026-05-06'))
    expect(await stored()).toMatchObject([{ day: '2026-05-04' }, { day: '2026-05-06' }])
    const log = readLog.parse(await get(tenant, all)).map((entry) => JSON.stringify(entry))
    const { checkpoints } = await verifyExport(log, [logCheckpointSchema.parse(first).jws], await keys())
    expect(checkpoints[0]?.outcome).toBe('agrees')
    // Any first request of a later day signs finished days.
    await note(tenant, id)
    await moved('2026-05-08', 3)
    service.setToday('2031-01-01')
    await get(tenant, path)
    service.setToday(undefined)
    expect((await stored()).at(-1)).toEqual({ day: '2026-05-08', position: 3 })
    // Today is not over.
    await note(tenant, id)
    expect(await of('2999-01-01')).toMatchObject({ day: '2026-05-08' })
  })

  test.each([
    ['alone', ['05-04', '05-04'], '05-05'],
    ['before others of a later day', ['05-04', '05-04', '05-06'], '05-06'],
    ['behind others of a later day', ['05-04', '05-06', '05-04'], '05-06'],
  ])('covers an entry that began on its day and committed after it was signed, %s', async (_what, days, last) => {
    for (const isAsked of [true, false]) {
      const tenant = newTenant()
      const { id } = await aFinding(tenant)
      const of = async (day: string) => await get(tenant, `${all}/checkpoint?day=2026-${day}`)
      const place = async (position: number) =>
        await service.asSuperuser.system(async (tx) => {
          await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
          await tx.execute({
            text: 'update findings.tracker_log set recorded_at = $2::timestamptz where tenant_id = $1 and position = $3',
            values: [tenant.tenantId, `2026-${days[position - 1]}T10:00:00Z`, position],
          })
        })
      for (let more = 1; more < days.length; more += 1) await note(tenant, id)
      await place(1)
      const first = await of('05-04')
      for (const later of days.slice(1).keys()) await place(later + 2)
      // The first reader or writer signs it. Later ones do not sign it again.
      if (isAsked) expect(await of(last)).toMatchObject({ day: `2026-${last}`, position: days.length })
      for (let more = 0; more < 2; more += 1) await note(tenant, id)
      const signed = await service.asSuperuser.system(async (tx) =>
        tx.query({
          text: `select to_char(day, 'MM-DD') as day, position::integer from findings.log_checkpoint
            where tenant_id = $1 order by day`,
          values: [tenant.tenantId],
        }),
      )
      expect(signed).toEqual([
        { day: '05-04', position: 1 },
        { day: last, position: days.length },
      ])
      expect(await of('05-09')).toMatchObject({ day: `2026-${last}`, position: days.length })
      expect(await of('05-04')).toEqual(first)
    }
  })

  test('is signed only after the day is over by the clock of the database', async () => {
    const tenant = newTenant()
    await aFinding(tenant)
    const signed = async () =>
      await service.asSuperuser.system(async (tx) => {
        const text = 'select day from findings.log_checkpoint where tenant_id = $1'
        return await tx.query({ text, values: [tenant.tenantId] })
      })
    // The clock of the service is a day ahead.
    service.setToday('2031-01-01')
    await get(tenant, path)
    expect(await signed()).toEqual([])
    await service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
      const text = `update findings.tracker_log set recorded_at = '2026-05-04T10:00:00Z' where tenant_id = $1`
      await tx.execute({ text, values: [tenant.tenantId] })
    })
    await get(tenant, path)
    service.setToday(undefined)
    expect(await signed()).toEqual([{ day: '2026-05-04' }])
  })

  test('of an empty log has position 0', async () => {
    expect(await get(newTenant(), `${all}/checkpoint`)).toMatchObject({ position: 0, root: '0'.repeat(64) })
  })
})
