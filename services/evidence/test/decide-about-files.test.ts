/**
 * @promise Data: Evidence is kept until the date in its receipt, and only administrators can purge it afterwards.
 */

import { randomUUID } from 'node:crypto'
import {
  type EvidenceFile,
  type Receipt,
  custodyEventSchema,
  evidenceFileSchema,
  evidencePolicySchema,
  problemSchema,
} from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { findsMalware, person } from './people.ts'
import { startEvidenceWithUniverse, uploaded, uploader } from './support.ts'

let service: Awaited<ReturnType<typeof startEvidenceWithUniverse>>
beforeAll(async () => (service = await startEvidenceWithUniverse({}, { scanner: findsMalware })))
afterAll(async () => await service.close())

const adminOf = ({ tenantId }: Pick<Principal, 'tenantId'>): Principal => ({
  tenantId,
  kind: 'user',
  id: 'amara.osei',
  label: 'Amara Osei',
  scopes: ['read:findings', 'write:evidence'],
  roles: ['admin'],
})

const files = '/api/v1/evidence-files'
const policy = '/api/v1/evidence-policy'
const reason = 'Looked at: a signature of our own.'

async function get(by: Principal, target: string, headers: Record<string, string> = {}) {
  return await service.caller.call(by, 'GET', target, { headers })
}

async function decide(by: Principal, id: string, verb: 'release' | 'purge', body: object = { reason }, headers = {}) {
  return await service.caller.call(by, 'POST', `${files}/${id}/${verb}`, { body, headers })
}

async function read(by: Principal, id: string): Promise<EvidenceFile> {
  return evidenceFileSchema.parse((await get(by, `${files}/${id}`)).json)
}

async function revised(sender: Principal, id: string, body: string): Promise<string> {
  const target = `/api/v1/evidence/${id}/revisions?file_name=a.csv`
  const { json } = await service.caller.call(sender, 'POST', target, { body, headers: { 'content-type': 'text/csv' } })
  return z.object({ id: z.string() }).parse(json).id
}

const yearOf = (day = '') => Number(day.slice(0, 4))

/** The day is over until which the files of a tenant are kept. */
async function endRetention({ tenantId }: Pick<Principal, 'tenantId'>): Promise<void> {
  await service.rows('alter table evidence.file disable trigger file_never_changes')
  await service.rows(
    `update evidence.file set received_at = now() - interval '3 years', retention_until = current_date - 1
    where tenant_id = $1`,
    [tenantId],
  )
  await service.rows('alter table evidence.file enable trigger file_never_changes')
}

describe('the details of files, and decisions about them', () => {
  test('are not available to keys, to people without the role, or without a reason', async () => {
    const sender = uploader()
    const { id } = await uploaded(service.caller, sender, 'malware')
    const everything: Principal = {
      ...sender,
      scopes: ['read:findings', 'read:universe', 'write:evidence', 'admin:sync'],
    }
    const known = [files, `${files}/${id}`]
    const forAdmins = [`${files}/${id}/custody`, policy]
    for (const by of [everything, person(sender, 'viewer'), person(sender, 'viewer', 'auditor')]) {
      const mayKnow = by.roles?.includes('auditor') === true
      for (const target of [...forAdmins, ...(mayKnow ? [] : known)]) {
        expect([target, (await get(by, target)).status]).toEqual([target, 403])
      }
      if (mayKnow) for (const target of known) expect((await get(by, target)).status).toBe(200)
      for (const verb of ['release', 'purge'] as const) expect((await decide(by, id, verb)).status).toBe(403)
    }
    for (const body of [{}, { reason: ' ' }, { reason: 'x', until: 'y' }]) {
      const refused = await decide(adminOf(sender), id, 'release', body)
      expect([refused.status, problemSchema.parse(refused.json).errors?.length]).toEqual([422, 1])
    }
    expect(await read(adminOf(sender), id)).toMatchObject({ status: 'quarantined' })
  })

  test('of another tenant return the same bytes as missing files', async () => {
    const sender = uploader()
    const { id } = await uploaded(service.caller, sender, 'malware')
    const other = adminOf(uploader())
    const unknown = randomUUID()
    const said = ({ status, text }: { status: number; text: string }) => [
      status,
      text
        .replaceAll(id, '-')
        .replaceAll(unknown, '-')
        .replaceAll(/"instance":"[^"]*"/g, ''),
    ]
    for (const path of ['', '/custody']) {
      expect(said(await get(other, `${files}/${id}${path}`))).toEqual(
        said(await get(other, `${files}/${unknown}${path}`)),
      )
    }
    for (const verb of ['release', 'purge'] as const) {
      expect(said(await decide(other, id, verb))).toEqual(said(await decide(other, unknown, verb)))
      expect((await decide(other, id, verb)).status).toBe(404)
    }
    expect((await get(other, files)).json).toEqual([])
    expect((await get(adminOf(sender), files)).json).toMatchObject([{ id, status: 'quarantined' }])
  })
})

test('a rejected file cannot be attached any more, but its revision can', async () => {
  const sender = uploader()
  await service.universe.push(sender.tenantId, ['SOX-1'])
  const attach = async (id: string) =>
    await service.caller.call(sender, 'POST', `/api/v1/evidence/${id}/attachments`, {
      body: { test_procedures: ['ext:SOX-1'] },
    })
  const review = async (id: string, verdict: string) =>
    await service.caller.call(adminOf(sender), 'POST', `${files}/${id}/review`, { body: { verdict, reason } })
  const [bad, good] = [await uploaded(service.caller, sender, 'a,b'), await uploaded(service.caller, sender, 'c,d')]
  expect((await review(bad.id, 'rejected')).status).toBe(200)
  expect((await review(good.id, 'reviewed')).status).toBe(200)
  const refused = await attach(bad.id)
  expect([refused.status, problemSchema.parse(refused.json)]).toMatchObject([
    409,
    { code: 'conflict', detail: expect.stringContaining('rejected') },
  ])
  expect((await read(adminOf(sender), bad.id)).test_procedure_ids).toEqual([])
  expect((await attach(good.id)).status).toBe(201)
  expect((await attach(await revised(sender, bad.id, 'a,c'))).status).toBe(201)
})

test('a file that is rejected and attached at the same moment is not attached', async () => {
  const sender = uploader()
  await service.universe.push(sender.tenantId, ['SOX-1'])
  const { id } = await uploaded(service.caller, sender, 'a,b')
  const under: Promise<{ status: number }>[] = []
  await service.holdLock(`evidence.decision:${sender.tenantId}:${id}`, async (waiters) => {
    const body = { verdict: 'rejected', reason }
    under.push(service.caller.call(adminOf(sender), 'POST', `${files}/${id}/review`, { body }))
    await expect.poll(waiters).toBe(1)
    const attach = { body: { test_procedures: ['ext:SOX-1'] } }
    under.push(service.caller.call(sender, 'POST', `/api/v1/evidence/${id}/attachments`, attach))
    await expect.poll(waiters).toBe(2)
  })
  expect((await Promise.all(under)).map(({ status }) => status)).toEqual([200, 409])
  expect(await read(adminOf(sender), id)).toMatchObject({ status: 'rejected', test_procedure_ids: [] })
})

describe('a file in quarantine', () => {
  test('is released by an administrator with a reason; then its sender can attach it', async () => {
    const sender = uploader()
    const admin = adminOf(sender)
    await service.universe.push(sender.tenantId, ['SOX-1'])
    const [clean, { id, jws }] = [
      await uploaded(service.caller, sender, 'a,b'),
      await uploaded(service.caller, sender, 'malware'),
    ]
    const attach = async () =>
      await service.caller.call(sender, 'POST', `/api/v1/evidence/${id}/attachments`, {
        body: { test_procedures: ['ext:SOX-1'] },
      })
    expect((await attach()).status).toBe(409)
    expect((await get(admin, `${files}?status=quarantined`)).json).toMatchObject([{ id, malware: 'Test.Malware' }])
    expect((await decide(admin, clean.id, 'release')).status).toBe(409)

    const before = await get(admin, `${files}/${id}`)
    const answers = await Promise.all([decide(admin, id, 'release'), decide(admin, id, 'release')])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    const released = evidenceFileSchema.parse(answers[0]?.json)
    expect(released).toMatchObject({
      status: 'released',
      scan: 'infected',
      decision_reason: reason,
      decided_by: { type: 'user', id: 'amara.osei', label: 'Amara Osei' },
    })
    expect(answers[1]?.json).toEqual(released)
    const unchanged = { 'if-none-match': before.headers['etag'] ?? '' }
    expect((await get(admin, `${files}/${id}`, unchanged)).status).toBe(200)
    expect((await attach()).status).toBe(201)
    expect((await read(admin, id)).test_procedure_ids).toHaveLength(1)

    const custody = z.array(custodyEventSchema).parse((await get(admin, `${files}/${id}/custody`)).json)
    expect(custody.map(({ kind }) => kind)).toEqual([
      'received',
      'hashed',
      'scanned',
      'quarantined',
      'released',
      'attached',
    ])
    expect(custody[4]).toMatchObject({ detail: { reason, malware: 'Test.Malware' }, actor: { id: 'amara.osei' } })
    const next = await get(admin, `${files}/${id}/custody?limit=4&count=true`)
    expect([next.headers['x-total-count'], next.headers['link']]).toEqual(['6', expect.stringContaining('cursor=')])
    // The receipt was correct when it was signed.
    const [row] = await service.rows('select receipt_jws from evidence.file where id = $1', [id])
    expect(row?.['receipt_jws']).toBe(jws)
  })

  test('is not released while that would replace evidence of a completed test procedure', async () => {
    const sender = uploader()
    const admin = adminOf(sender)
    await service.universe.push(sender.tenantId, ['SOX-1'], { status: 'in_review' })
    const evidence = async () => {
      const { id } = await uploaded(service.caller, sender, 'a,b')
      const attach = { body: { test_procedures: ['ext:SOX-1'] } }
      await service.caller.call(sender, 'POST', `/api/v1/evidence/${id}/attachments`, attach)
      return { id, bad: await revised(sender, id, 'malware') }
    }
    const [standing, replaced] = [await evidence(), await evidence()]
    await revised(sender, replaced.bad, 'clean')
    await service.universe.push(sender.tenantId, ['SOX-1'], { status: 'completed' })
    const refused = await decide(admin, standing.bad, 'release')
    expect([refused.status, problemSchema.parse(refused.json).code]).toEqual([409, 'procedure_locked'])
    expect((await read(admin, standing.id)).status).toBe('accepted')
    expect((await read(admin, standing.bad)).status).toBe('quarantined')
    // A file that a newer version replaced before the completion stays replaced.
    expect((await decide(admin, replaced.bad, 'release')).status).toBe(200)
    await service.universe.push(sender.tenantId, ['SOX-1'], { status: 'in_progress' })
    expect((await decide(admin, standing.bad, 'release')).status).toBe(200)
    expect((await read(admin, standing.id)).status).toBe('superseded')
    // Again, whatever has become of the procedure: the same answer.
    await service.universe.push(sender.tenantId, ['SOX-1'], { status: 'completed' })
    expect((await decide(admin, standing.bad, 'release')).status).toBe(200)
  })

  test('is released once even if the request is repeated', async () => {
    const sender = uploader()
    const { id } = await uploaded(service.caller, sender, 'malware')
    const headers = { 'idempotency-key': randomUUID() }
    const first = await decide(adminOf(sender), id, 'release', { reason }, headers)
    const again = await decide(adminOf(sender), id, 'release', { reason }, headers)
    expect([again.text, again.headers['idempotent-replayed']]).toEqual([first.text, 'true'])
    expect(
      await service.rows("select from evidence.custody_event where kind = 'released' and file_id = $1", [id]),
    ).toHaveLength(1)
  })
})

describe('retention', () => {
  test('is seven years or as an administrator sets it; each file keeps the value of its arrival', async () => {
    const sender = uploader()
    const admin = adminOf(sender)
    const year = new Date().getUTCFullYear()
    const first = await uploaded(service.caller, sender, 'one')
    expect(yearOf(first.retention_until)).toBe(year + 7)
    const answer = await get(admin, policy)
    expect(evidencePolicySchema.parse(answer.json)).toMatchObject({ retention_years: 7, changed_at: null })
    const change = async (body: object, headers = {}) =>
      await service.caller.call(admin, 'PATCH', policy, { body, headers })
    expect((await change({ retention_years: 10 })).status).toBe(428)
    expect((await change({ retention_years: 10 }, { 'if-match': '"9"' })).status).toBe(412)
    for (const body of [{ retention_years: 0 }, { retention_years: 101 }, { retention_years: 1.5 }, {}]) {
      expect((await change(body, { 'if-match': '"0"' })).status).toBe(422)
    }
    const etag = answer.headers['etag'] ?? ''
    const both = await Promise.all([
      change({ retention_years: 10 }, { 'if-match': etag }),
      change({ retention_years: 12 }, { 'if-match': etag }),
    ])
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 412])
    const set = service.logs.filter((line) => line.includes('"event":"evidence_policy_set"'))
    expect(set.map((line) => JSON.parse(line))).toMatchObject([{ tenant_id: admin.tenantId, actor_id: admin.id }])
    const { retention_years: years } = evidencePolicySchema.parse((await get(admin, policy)).json)
    const second = await uploaded(service.caller, sender, 'two')
    expect(yearOf(second.retention_until)).toBe(year + years)
    expect((await read(admin, first.id)).retention_until).toBe(first.retention_until)
    expect(evidencePolicySchema.parse((await get(adminOf(uploader()), policy)).json).retention_years).toBe(7)
  })

  test('prevents a purge by anyone', async () => {
    const sender = uploader()
    const { id, retention_until: until } = await uploaded(service.caller, sender, 'kept')
    const refused = await decide(adminOf(sender), id, 'purge')
    expect([refused.status, refused.text]).toEqual([409, expect.stringContaining(until ?? 'a day')])
    expect((await get(adminOf(sender), `${files}?retention_over=true`)).json).toEqual([])
    // The database refuses it too.
    const insert = `insert into evidence.file_decision (
      tenant_id, file_id, kind, reason, decided_by_type, decided_by_id, decided_by_label) values ($1, $2, $3, 'r', 'user', 'u', '')`
    for (const kind of ['purged', 'released']) {
      await expect(service.rows(insert, [sender.tenantId, id, kind])).rejects.toMatchObject({ code: '23514' })
    }
    expect(await service.filesIn(`blobs/${sender.tenantId}`)).toHaveLength(1)
  })

  test('once over, lets an administrator delete the bytes; the details stay, and so do the bytes of other files', async () => {
    const [sender, other] = [uploader(), uploader()]
    const admin = adminOf(sender)
    const [one, twin, alone] = [
      await uploaded(service.caller, sender, 'same bytes'),
      await uploaded(service.caller, sender, 'same bytes'),
      await uploaded(service.caller, sender, 'bytes of its own'),
    ]
    await uploaded(service.caller, other, 'same bytes')
    await endRetention(sender)
    const due = z.array(evidenceFileSchema).parse((await get(admin, `${files}?retention_over=true`)).json)
    expect(due.map(({ id }) => id)).toEqual([alone.id, twin.id, one.id])

    const answers = await Promise.all([decide(admin, one.id, 'purge'), decide(admin, one.id, 'purge')])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(answers[1]?.json).toEqual(answers[0]?.json)
    expect(evidenceFileSchema.parse(answers[0]?.json)).toMatchObject({ status: 'purged', sha256: one.sha256 })
    // The twin is still to be read.
    expect(await service.filesIn(`blobs/${sender.tenantId}`)).toHaveLength(2)
    expect((await decide(admin, alone.id, 'purge')).status).toBe(200)
    expect((await decide(admin, twin.id, 'purge')).status).toBe(200)
    expect(await service.filesIn(`blobs/${sender.tenantId}`)).toEqual([])
    expect(await service.filesIn(`blobs/${other.tenantId}`)).toHaveLength(1)
    const gone = await get(admin, `${files}/${one.id}/content`)
    expect([gone.status, problemSchema.parse(gone.json).code]).toEqual([409, 'conflict'])
    expect((await get(admin, `${files}?retention_over=true`)).json).toEqual([])
    expect((await get(admin, `${files}?status=purged&count=true&limit=1`)).headers['x-total-count']).toBe('3')
    const custody = z.array(custodyEventSchema).parse((await get(admin, `${files}/${one.id}/custody`)).json)
    expect(custody.filter(({ kind }) => kind === 'purged')).toHaveLength(1)
    // The same bytes can come again, and are kept.
    await uploaded(service.caller, sender, 'same bytes')
    expect(await service.filesIn(`blobs/${sender.tenantId}`)).toHaveLength(1)
    // It has taken back what the purges have freed.
    const [usage] = await service.rows('select bytes, files from evidence.tenant_usage where tenant_id = $1', [
      sender.tenantId,
    ])
    expect(usage).toEqual({ bytes: String('same bytes'.length), files: '1' })
  })

  test('once over, a purge keeps the bytes of a concurrent upload of the same content', async () => {
    const sender = uploader()
    const rounds = Array.from({ length: 6 }, (_, at) => `round ${at}`)
    const old: Receipt[] = []
    for (const text of rounds) old.push(await uploaded(service.caller, sender, text))
    await endRetention(sender)
    for (const [at, text] of rounds.entries()) {
      const purge = async () => await decide(adminOf(sender), old[at]?.id ?? '', 'purge')
      const [first, , second] = await Promise.all([purge(), uploaded(service.caller, sender, text), purge()])
      expect([first.status, second.status]).toEqual([200, 200])
    }
    const listed = z.array(evidenceFileSchema).parse((await get(adminOf(sender), files)).json)
    expect(Map.groupBy(listed, ({ status }) => status).get('accepted')).toHaveLength(rounds.length)
    expect(await service.filesIn(`blobs/${sender.tenantId}`)).toHaveLength(rounds.length)
  })
})
