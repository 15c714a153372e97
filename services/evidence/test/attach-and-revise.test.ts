import { randomUUID } from 'node:crypto'
import { attachmentReceiptSchema, evidenceFileSchema, problemSchema, receiptSchema } from '@postern/contracts'
import type { CallAnswer, Principal } from '@postern/local-stack/testing'
import { compactVerify, createLocalJWKSet } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { file, form, metadata } from './form.ts'
import { person } from './people.ts'
import { sha256, startEvidenceWithUniverse, upload, uploaded, uploader } from './support.ts'

let service: Awaited<ReturnType<typeof startEvidenceWithUniverse>>
beforeAll(async () => (service = await startEvidenceWithUniverse({ POSTERN_EVIDENCE_TENANT_QUOTA_BYTES: '1000' })))
afterAll(async () => await service.close())

const csv = { 'content-type': 'text/csv' }
const codeOf = ({ json }: CallAnswer) => problemSchema.parse(json).code

async function attach(principal: Principal, id: string, body: unknown): Promise<CallAnswer> {
  return await service.caller.call(principal, 'POST', `/api/v1/evidence/${id}/attachments`, { body })
}

async function revise(principal: Principal, id: string, body: string): Promise<CallAnswer> {
  const target = `/api/v1/evidence/${id}/revisions?file_name=a.csv`
  return await service.caller.call(principal, 'POST', target, { body, headers: csv })
}

/** The receipt for the only file of a form. */
async function receiptOf(sender: Principal, { body, headers }: ReturnType<typeof form>) {
  const answer = await service.caller.call(sender, 'POST', '/api/v1/evidence', { body, headers })
  expect(answer.status, answer.text).toBe(201)
  const schema = z.union([receiptSchema, z.array(receiptSchema).transform(([only]) => receiptSchema.parse(only))])
  return schema.parse(answer.json)
}

/** The file as if it had been received that long ago. */
async function age(id: string, days: number): Promise<void> {
  await service.rows('alter table evidence.file disable trigger file_never_changes')
  await service.rows(
    `with aged as (update evidence.file set received_at = received_at - $2 * interval '1 day' where id = $1 returning id)
     select id from aged`,
    [id, days],
  )
  await service.rows('alter table evidence.file enable trigger file_never_changes')
}

/** Instances differ with each request; nothing else may. */
const withoutInstance = ({ text }: CallAnswer) => text.replace(/"instance":"[^"]*"/, '')

describe.each([
  ['attaching', async (who: Principal, id: string) => await attach(who, id, { test_procedures: ['ref:TP-0002'] })],
  ['revising', async (who: Principal, id: string) => await revise(who, id, 'new')],
])('%s a file', (_what, act) => {
  test('returns the same 404 for a missing file, a file of another key or tenant, and an old file', async () => {
    const owner = { ...uploader(), id: randomUUID() }
    await service.universe.push(owner.tenantId, ['SOX-1', 'SOX-2'])
    const { id } = await uploaded(service.caller, owner, 'evidence')
    const old = await uploaded(service.caller, owner, 'old evidence')
    await age(old.id, 31)
    const unknown = await act(owner, randomUUID())
    expect([unknown.status, codeOf(unknown)]).toEqual([404, 'not_found'])
    const others = await Promise.all([
      act({ ...owner, id: randomUUID() }, id),
      act({ ...owner, kind: 'user' }, id),
      act({ ...uploader(), id: owner.id ?? '' }, id),
      act(owner, old.id),
      act(owner, 'no-id'),
    ])
    for (const other of others) expect([other.status, withoutInstance(other)]).toEqual([404, withoutInstance(unknown)])
    expect(await act(owner, id)).toMatchObject({ status: 201 })
  })
})

describe('attaching', () => {
  test.each([
    ['nothing', {}],
    ['an empty list', { test_procedures: [] }],
    ['what is no address', { test_procedures: ['TP-1'] }],
    ['a lone surrogate', { test_procedures: ['ext:\ud800'] }],
    ['a stray field', { test_procedures: ['ref:TP-1'], tenant_id: 'x' }],
    ['a note with NUL', { test_procedures: ['ref:TP-1'], note: 'a\u0000' }],
  ])('to %s is refused', async (_what, body) => {
    const principal = uploader()
    const { id } = await uploaded(service.caller, principal, 'evidence')
    const answer = await attach(principal, id, body)
    expect([answer.status, codeOf(answer)]).toEqual([422, 'invalid_content'])
  })

  test('is limited to a thousand test procedures, even for concurrent requests', async () => {
    const principal = uploader()
    const { id } = await uploaded(service.caller, principal, 'evidence')
    await service.universe.push(principal.tenantId, ['SOX-1', 'SOX-2', 'SOX-3', 'SOX-4'])
    const count = async () => await service.rows('select from evidence.attachment where file_id = $1', [id])
    await service.rows(
      `insert into evidence.attachment
        (tenant_id, file_id, test_procedure, attached_at, attached_by_type, attached_by_id, attached_by_label)
      select $1, $2, uuidv7()::text, now(), 'api_key', 'x', 'x' from generate_series(1, 998)`,
      [principal.tenantId, id],
    )
    // All that are named, or none.
    const all = await attach(principal, id, { test_procedures: ['ref:TP-0001', 'ref:TP-0002', 'ref:TP-0003'] })
    expect([all.status, problemSchema.parse(all.json).errors]).toMatchObject([
      422,
      [{ pointer: '/test_procedures', code: 'too_many' }],
    ])
    expect(await count()).toHaveLength(998)
    const names = ['ref:TP-0001', 'ref:TP-0002', 'ref:TP-0003', 'ref:TP-0004']
    const answers = await Promise.all(names.map((name) => attach(principal, id, { test_procedures: [name] })))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 201, 422, 422])
    expect(await count()).toHaveLength(1000)
    // A repeated attachment adds nothing.
    const done = names.filter((_, at) => answers[at]?.status === 201)
    expect((await attach(principal, id, { test_procedures: done })).status).toBe(201)
  })

  test('returns a receipt, is recorded, and happens once even if it is repeated', async () => {
    const principal = uploader()
    const { id, reference, sha256: digest } = await uploaded(service.caller, principal, 'evidence')
    await service.universe.push(principal.tenantId, ['SOX-1', 'SOX-2'])
    const [found, other] = await service.rows(
      'select id from universe.test_procedure where tenant_id = $1 order by number',
      [principal.tenantId],
    )
    const procedure = String(found?.['id'])
    const body = { test_procedures: [procedure.toUpperCase(), 'ref:TP-0002', 'ext:SOX-2'], note: 'See sheet 2' }
    const answer = await attach(principal, id, body)
    const again = attachmentReceiptSchema.parse((await attach(principal, id, { ...body, note: 'Another' })).json)
    const { jws, ...content } = attachmentReceiptSchema.parse(answer.json)
    expect(content).toMatchObject({
      id,
      reference,
      sha256: digest,
      test_procedures: [procedure, 'ref:TP-0002', 'ext:SOX-2'],
      note: 'See sheet 2',
    })
    // The first request's data stay.
    const { attachments, attached_at } = content
    const [one, two] = [procedure, String(other?.['id'])]
    const stands = { note: 'See sheet 2', attached_at }
    expect(attachments?.toSorted((a, b) => (a.test_procedure_id < b.test_procedure_id ? -1 : 1))).toEqual([
      { test_procedure_id: one, ...stands },
      { test_procedure_id: two, ...stands },
    ])
    expect(again).toMatchObject({ note: 'Another', attachments })
    const keys = await service.caller.call(
      { tenantId: '00000000-0000-0000-0000-000000000000', kind: 'service', id: 'gateway', label: '' },
      'GET',
      '/.well-known/jwks.json',
    )
    const { payload, protectedHeader } = await compactVerify(jws, createLocalJWKSet(JSON.parse(keys.text)))
    expect(JSON.parse(Buffer.from(payload).toString())).toEqual(content)
    expect(protectedHeader.typ).toBe('postern-attachment')
    const rows = await service.rows('select test_procedure, note from evidence.attachment where file_id = $1', [id])
    expect(rows).toHaveLength(2)
    const events = await service.rows('select kind from evidence.custody_event where file_id = $1 order by id', [id])
    expect(events.map(({ kind }) => kind)).toEqual(['received', 'hashed', 'attached'])
  })
})

describe('the source of evidence', () => {
  const files = '/api/v1/evidence-files'

  test('is shown to auditors as its sender stated it, with each attachment, and not to keys', async () => {
    const sender = uploader()
    await service.universe.push(sender.tenantId, ['SOX-1', 'SOX-2'])
    const details = {
      evidence_date: '2026-06-30',
      period_start: '2026-04-01',
      period_end: '2026-06-30',
      source_system: 'SAP ECC',
      collection_method: 'query',
      collected_by: { email: 'ada@example.org', name: 'Ada Lund' },
      query_text: 'select * from usr02 where uflag = 0',
    }
    const sent = metadata({ ...details, collected_at: '2026-07-01T10:00:00+02:00', test_procedures: ['ext:SOX-1'] })
    const { id } = await receiptOf(sender, form(sent, file('users.csv', 'a,b')))
    await attach(sender, id, { test_procedures: ['ext:SOX-2'], note: 'See sheet 2' })
    const auditor = person(sender, 'auditor')
    const answer = await service.caller.call(auditor, 'GET', `${files}/${id}`)
    const known = evidenceFileSchema.parse(answer.json)
    expect(known).toMatchObject({ ...details, collected_at: '2026-07-01T08:00:00.000Z' })
    const by = known.created_by
    expect(known.attachments).toMatchObject([{ note: null }, { note: 'See sheet 2', attached_by: by }])
    expect(known.attachments.map(({ test_procedure_id }) => test_procedure_id)).toEqual(known.test_procedure_ids)
    const listed = await service.caller.call(auditor, 'GET', files)
    expect(z.array(evidenceFileSchema).parse(listed.json)).toEqual([known])
    const brief = await service.caller.call(auditor, 'GET', `${files}/${id}?fields=id,source_system`)
    expect(brief.json).toEqual({ id, source_system: 'SAP ECC' })
    for (const target of [files, `${files}/${id}`]) {
      expect((await service.caller.call(sender, 'GET', target)).status).toBe(403)
    }
  })

  test('is in lists with the first twenty attachments and all ids; a single file has all attachments', async () => {
    const sender = uploader()
    const { id } = await receiptOf(sender, form(metadata({}), file('a.csv', 'a')))
    await service.rows(
      `insert into evidence.attachment (
        tenant_id, file_id, test_procedure, note, attached_at, attached_by_type, attached_by_id, attached_by_label
      )
      select $1, $2, 'ext:' || n, 'Sheet ' || n, timestamptz '2026-01-01' + n * interval '1 second', 'api_key', 'k', 'A key'
      from generate_series(1, 30) as n`,
      [sender.tenantId, id],
    )
    const auditor = person(sender, 'auditor')
    const whole = evidenceFileSchema.parse((await service.caller.call(auditor, 'GET', `${files}/${id}`)).json)
    expect(whole.attachments.map(({ note }) => note)).toEqual(Array.from({ length: 30 }, (_, n) => `Sheet ${n + 1}`))
    expect(whole.test_procedure_ids).toEqual(Array.from({ length: 30 }, (_, n) => `ext:${n + 1}`))
    const listed = { ...whole, attachments: whole.attachments.slice(0, 20) }
    expect((await service.caller.call(auditor, 'GET', files)).json).toEqual([listed])
    const headers = { accept: 'application/x-ndjson' }
    const { text } = await service.caller.call(auditor, 'GET', files, { headers })
    expect(JSON.parse(text)).toEqual(listed)
  })

  test('can be searched by test procedure, day, time and words, in either order', async () => {
    const sender = uploader()
    await service.universe.push(sender.tenantId, ['SOX-1', 'SOX-2'])
    const ids: string[] = []
    for (const [name, given] of [
      ['a.csv', { evidence_date: '2026-01-31', source_system: '100%_SAP', test_procedures: ['ext:SOX-1'] }],
      ['b.csv', { evidence_date: '2026-02-28', description: 'Users of SAP', test_procedures: ['ext:SOX-2'] }],
      ['c.csv', { evidence_date: '2026-03-31' }],
    ] as const) {
      ids.push((await receiptOf(sender, form(metadata(given), file(name, name)))).id)
    }
    const auditor = person(sender, 'auditor')
    const list = async (query: string) => {
      const answer = await service.caller.call(auditor, 'GET', `${files}?${query}`)
      expect(answer.status, answer.text).toBe(200)
      const found = z.array(evidenceFileSchema).parse(answer.json)
      const next = /^<([^>]+)>/.exec(answer.headers['link'] ?? '')?.[1]
      return { letters: found.map(({ id }) => 'abc'[ids.indexOf(id)]).join(''), found, next }
    }
    const [a, b] = (await list('sort=received_at')).found
    const [one = '', two = ''] = [a, b].map((each) => each?.test_procedure_ids[0])
    for (const [query, letters] of [
      ['', 'cba'],
      ['sort=received_at', 'abc'],
      [`test_procedure_id=${one}`, 'a'],
      [`test_procedure_id=${one},${two}`, 'ba'],
      [`test_procedure_id=${randomUUID()}`, ''],
      ['test_procedure_id=ext:none', ''],
      ['test_procedure_id=ext:none,ref:TP-0001', 'a'],
      ['evidence_from=2026-02-28', 'cb'],
      ['evidence_to=2026-02-28', 'ba'],
      ['q=sap', 'ba'],
      ['q=100%25_', 'a'],
      ['q=%25%25', ''],
      ['q=B.CSV', 'b'],
      [`received_after=${b?.received_at}&received_before=2999-01-01T00:00:00Z`, 'c'],
      [`received_before=${b?.received_at}`, 'a'],
    ] as const) {
      expect((await list(query)).letters, query).toBe(letters)
    }
    const first = await list('sort=received_at&limit=2')
    expect(first.letters).toBe('ab')
    expect((await list((first.next ?? '').split('?')[1] ?? '')).letters).toBe('c')
  })
})

describe('a revision', () => {
  test('is the next version, names the older one and leaves it unchanged', async () => {
    const principal = uploader()
    const first = await uploaded(service.caller, principal, 'one')
    const second = receiptSchema.parse((await revise(principal, first.id, 'two')).json)
    const third = receiptSchema.parse((await revise(principal, second.id, 'three')).json)
    expect([first, second, third].map(({ version_of, revision }) => [version_of, revision])).toEqual([
      [null, 1],
      [first.id, 2],
      [second.id, 3],
    ])
    expect(await service.filesIn(`blobs/${principal.tenantId}`)).toHaveLength(3)
  })

  test('of a file that already has one is rejected, even if both arrive at once', async () => {
    const principal = uploader()
    const { id } = await uploaded(service.caller, principal, 'one')
    const answers = await Promise.all([revise(principal, id, 'two'), revise(principal, id, 'also two')])
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409])
    const late = await revise(principal, id, 'too late')
    expect([late.status, codeOf(late)]).toEqual([409, 'conflict'])
  })

  test('is one file, as the body or in a form', async () => {
    const principal = uploader()
    const { id } = await uploaded(service.caller, principal, 'one')
    const target = `/api/v1/evidence/${id}/revisions`
    const two = form(file('a.csv', '1'), file('b.csv', '2'))
    expect(await service.caller.call(principal, 'POST', target, two)).toMatchObject({ status: 422 })
    const answer = await service.caller.call(principal, 'POST', target, form(file('b.csv', 'two')))
    expect(receiptSchema.parse(answer.json)).toMatchObject({ file_name: 'b.csv', revision: 2, sha256: sha256('two') })
  })
})

describe('a tenant that may keep 1000 bytes', () => {
  test('is enforced before the bytes are read if the length is known', async () => {
    const principal = uploader()
    await uploaded(service.caller, principal, Buffer.alloc(600, 'a'))
    await uploaded(service.caller, principal, Buffer.alloc(300, 'a'), 'the same bytes count again.csv')
    const answer = await upload(service.caller, principal, { body: Buffer.alloc(101, 'b'), headers: csv })
    expect([answer.status, codeOf(answer)]).toEqual([413, 'quota_exceeded'])
    expect(await service.filesIn(`settling/${principal.tenantId}`)).toEqual([])
    await uploaded(service.caller, principal, Buffer.alloc(100, 'b'))
    await uploaded(service.caller, uploader(), Buffer.alloc(1000, 'of another tenant'))
  })

  test('cannot exceed the quota with concurrent uploads', async () => {
    const principal = uploader()
    const answers = await Promise.all(
      Array.from({ length: 6 }, async (_, index) =>
        upload(service.caller, principal, { body: Buffer.alloc(300, String(index)), headers: csv }),
      ),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 201, 201, 413, 413, 413])
  })
})
