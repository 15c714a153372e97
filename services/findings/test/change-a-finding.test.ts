import { findingSchema, findingStubSchema, logEntrySchema, problemSchema } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type FindingsUnderTest,
  type Principal,
  completeFields,
  findingBody,
  newTenant,
  path,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

async function made(tenant: Principal, given: object = {}) {
  const answer = await service.call(tenant, 'POST', path, { body: { ...findingBody(), ...given } })
  expect(answer.status, answer.text).toBe(201)
  const finding = findingSchema.parse((await service.call(reader(tenant), 'GET', `${path}/${idOf(answer.json)}`)).json)
  return { finding, etag: answer.headers['etag'] ?? '' }
}

const reader = (tenant: Principal): Principal => ({ ...tenant, scopes: ['read:findings'] })
const idOf = (json: unknown): string => z.looseObject({ id: z.string() }).parse(json).id

const withoutId = (text: string) => text.replace(/"instance":"[^"]*"/, '')

async function patch(tenant: Principal, id: string, body: unknown, headers: Record<string, string> = {}) {
  return await service.call(tenant, 'PATCH', `${path}/${id}`, { body, headers })
}

async function logOf(tenant: Principal, id: string) {
  return z.array(logEntrySchema).parse((await service.call(reader(tenant), 'GET', `${path}/${id}/log`)).json)
}

/** Writes without the service and without triggers. */
async function write(tx: Tx, id: string, column: 'external_id' | 'cause', to: string): Promise<void> {
  await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
  await tx.execute({ text: `update findings.finding set ${column} = $2 where id = $1`, values: [id, to] })
}

describe('changing a finding', () => {
  test('is rejected without write:findings, even if the caller can read', async () => {
    const tenant = newTenant()
    const { finding, etag } = await made(tenant)
    const answer = await patch(reader(tenant), finding.id, { title: 'x' }, { 'if-match': etag })
    expect(answer.status).toBe(403)
  })

  test('of another tenant returns the same bytes as for a missing finding', async () => {
    const [mine, theirs] = [newTenant(), newTenant()]
    const { finding, etag } = await made(theirs, { external_id: 'X' })
    const foreign = await patch(mine, finding.id, { title: 'x' }, { 'if-match': etag })
    const unknown = await patch(mine, crypto.randomUUID(), { title: 'x' }, { 'if-match': etag })
    expect(foreign.status).toBe(404)
    expect(withoutId(foreign.text)).toBe(withoutId(unknown.text))
    expect((await patch(mine, 'ext:X', { title: 'x' }, { 'if-match': '*' })).status).toBe(404)
    expect((await patch(theirs, 'ext:X', { title: 'x' }, { 'if-match': etag })).status).toBe(200)
  })

  test('needs If-Match: 428 without, 412 when the finding has changed since', async () => {
    const tenant = newTenant()
    const { finding, etag } = await made(tenant)
    expect((await patch(tenant, finding.id, { title: 'x' })).status).toBe(428)
    const first = await patch(tenant, finding.id, { title: 'one' }, { 'if-match': etag })
    expect(first.status).toBe(200)
    for (const stale of [etag, '"x"', `W/${first.headers['etag']}`, '""']) {
      const second = await patch(tenant, finding.id, { title: 'two' }, { 'if-match': stale })
      expect(second.status, stale).toBe(412)
      expect(second.headers['etag']).toBeUndefined()
    }
    expect(
      (await patch(tenant, finding.id, { title: 'two' }, { 'if-match': first.headers['etag'] ?? '' })).status,
    ).toBe(200)
  })

  test('rejects one of two concurrent changes', async () => {
    const tenant = newTenant()
    const { finding, etag } = await made(tenant)
    const answers = await Promise.all(
      ['a', 'b', 'c', 'd'].map(async (title) => await patch(tenant, finding.id, { title }, { 'if-match': etag })),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 412, 412, 412])
    expect(await logOf(tenant, finding.id)).toHaveLength(2)
  })

  test.each([
    ['a status', { status: 'closed' }, '/status'],
    ['an unknown field', { tenant: 'x' }, '/tenant'],
    ['no title', { title: null }, '/title'],
    ['a condition that says nothing', { condition: ' \t\n' }, '/condition'],
    ['a day before 1900', { target_date: '0000-01-01' }, '/target_date'],
    ['a day in the future', { identified_date: '2999-01-01' }, '/identified_date'],
    ['itself', 'itself', '/repeat_of_id'],
    ['a repeat of nothing', { repeat_of_id: crypto.randomUUID() }, '/repeat_of_id'],
    [
      'too many custom fields',
      { custom: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`f${n}`, n])) },
      '/custom',
    ],
  ])('is rejected with a pointer to the error: %s', async (_what, body, pointer) => {
    const tenant = newTenant()
    const { finding, etag } = await made(tenant)
    const given = body === 'itself' ? { repeat_of_id: finding.id } : body
    const answer = await patch(tenant, finding.id, given, { 'if-match': etag })
    expect(answer.status, answer.text).toBe(422)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.pointer)).toContain(pointer)
    expect((await service.call(tenant, 'GET', `${path}/${finding.id}`)).json).toEqual(finding)
  })

  test.each([
    ['its cause', { cause: null }, '/cause'],
    ['its last entity', { entity_ids: [] }, '/entity_ids'],
    ['its owner', { owner: null }, '/owner'],
    ['the day of its identification', { identified_date: '2026-01-01' }, '/identified_date'],
  ])('an open finding keeps %s', async (_what, body, pointer) => {
    const tenant = newTenant()
    const { finding, etag } = await made(tenant, { ...completeFields, status: 'open' })
    const answer = await patch(tenant, finding.id, body, { 'if-match': etag })
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors).toEqual([expect.objectContaining({ pointer })])
  })

  test('rejects an external_id that another finding has', async () => {
    const tenant = newTenant()
    await made(tenant, { external_id: 'A' })
    const { finding, etag } = await made(tenant)
    expect((await patch(tenant, finding.id, { external_id: 'A' }, { 'if-match': etag })).status).toBe(409)
    expect((await patch(tenant, finding.id, { external_id: 'B' }, { 'if-match': etag })).status).toBe(200)
  })

  test('is a merge patch: absent members stay, null removes, custom fields change one by one', async () => {
    const tenant = newTenant()
    const { finding, etag } = await made(tenant, { cause: 'x', criteria: 'y', custom: { a: 1, b: 2 } })
    const entity_ids = [crypto.randomUUID(), crypto.randomUUID()]
    const answer = await service.call(tenant, 'PATCH', `${path}/${finding.id}`, {
      body: JSON.stringify({ cause: null, custom: { a: null, c: 'new' }, entity_ids }),
      headers: { 'if-match': etag, 'content-type': 'application/merge-patch+json' },
    })
    expect(answer.status, answer.text).toBe(200)
    const changed = findingSchema.parse(answer.json)
    expect(changed).toEqual({
      ...finding,
      cause: null,
      custom: { b: 2, c: 'new' },
      entity_ids,
      version: 2,
      updated_at: changed.updated_at,
    })
    expect((await service.call(tenant, 'GET', `${path}/${finding.id}`)).json).toEqual(changed)
    const log = await service.call(tenant, 'GET', `${path}/${finding.id}/log?kind=field_change`)
    expect(
      z
        .array(logEntrySchema)
        .parse(log.json)[0]
        ?.changes.filter(({ field }) => field.includes('custom')),
    ).toEqual([
      { field: 'custom.a', from: 1, to: null },
      { field: 'custom.c', from: null, to: 'new' },
    ])
  })

  test('merges nested objects, and rejects an incomplete result', async () => {
    const tenant = newTenant()
    const { finding } = await made(tenant, {
      owner: { email: 'ada@example.org', name: 'Ada Lund' },
      management_response: { agreement: 'disagree', text: 'It is not so.', responded_at: '2026-01-05' },
    })
    const change = async (body: object) => {
      const answer = await patch(tenant, finding.id, body, { 'if-match': '*' })
      if (answer.status !== 200) return problemSchema.parse(answer.json).errors?.map(({ pointer }) => pointer)
      const { owner, management_response: response } = findingSchema.parse(answer.json)
      return { owner, response }
    }
    const response = { agreement: 'disagree', text: 'It is not so.', responded_at: '2026-01-05' }
    expect(await change({ owner: { name: 'Ada Lund-Berg' } })).toEqual({
      owner: { email: 'ada@example.org', name: 'Ada Lund-Berg' },
      response,
    })
    expect(await change({ owner: { email: null, name: null } })).toEqual(['/owner'])
    expect(await change({ management_response: { text: null } })).toEqual(['/management_response/text'])
    expect(await change({ management_response: { text: null, agreement: 'agree' }, owner: { email: null } })).toEqual({
      owner: { name: 'Ada Lund-Berg' },
      response: { agreement: 'agree', responded_at: '2026-01-05' },
    })
    expect(await change({ management_response: null, owner: null })).toEqual({ owner: null, response: null })
    expect(await change({ management_response: { text: 'Later.' } })).toEqual(['/management_response/agreement'])
    // A new address means another person, so old members are removed.
    const person = crypto.randomUUID()
    await change({ owner: { person_id: person, email: 'bo@example.org', name: 'Bo' } })
    expect(await change({ owner: { email: 'BO@example.org' } })).toMatchObject({ owner: { person_id: person } })
    expect(await change({ owner: { email: 'cleo@example.org' } })).toEqual({
      owner: { email: 'cleo@example.org' },
      response: null,
    })
    expect(await change({ owner: { person_id: person } })).toEqual({ owner: { person_id: person }, response: null })
  })

  test('writes one log entry for each kind of change, and none if nothing changes', async () => {
    const tenant = newTenant()
    const { finding, etag } = await made(tenant)
    const body = { title: 'New', target_date: '2030-01-01', owner: { name: 'Bo' }, severity: finding.severity }
    const answer = await patch(tenant, finding.id, body, { 'if-match': etag })
    const again = await patch(tenant, finding.id, body, { 'if-match': answer.headers['etag'] ?? '' })
    expect(again.headers['etag']).toBe(answer.headers['etag'])
    const [created, ...changes] = await logOf(tenant, finding.id)
    expect(created).toMatchObject({ seq: 1, kind: 'created', actor: finding.created_by })
    // Initial values for later changes.
    expect(created?.changes).toEqual([
      { field: 'status', from: null, to: 'draft' },
      { field: 'severity', from: null, to: finding.severity },
      { field: 'target_date', from: null, to: finding.target_date },
    ])
    expect(changes.map(({ kind, changes: fields }) => [kind, fields])).toEqual([
      ['field_change', [{ field: 'title', from: finding.title, to: 'New' }]],
      ['owner_change', [{ field: 'owner', from: null, to: { name: 'Bo' } }]],
      ['due_date_change', [{ field: 'target_date', from: finding.target_date, to: '2030-01-01' }]],
    ])
  })

  test('by a key that cannot read works with the tag of its last write and shows nothing else', async () => {
    const tenant = newTenant(['write:findings'])
    const { finding, etag } = await made(tenant)
    service.setToday('2031-01-01')
    const answer = await patch(tenant, finding.id, { title: 'Not for everyone' }, { 'if-match': etag })
    service.setToday(undefined)
    expect(answer.status).toBe(200)
    expect(findingStubSchema.strict().parse(answer.json).version).toBe(2)
  })

  test('by a key that cannot read refuses read-only members whether they are right or wrong, and says to leave them out', async () => {
    const tenant = newTenant(['write:findings'])
    const { finding, etag } = await made(tenant)
    const refused = async (status: string) => {
      const answer = await patch(tenant, finding.id, { title: 'New', closed_date: null, status }, { 'if-match': etag })
      expect(answer.status).toBe(422)
      return z.object({ errors: z.array(z.object({ pointer: z.string(), detail: z.string() })) }).parse(answer.json)
        .errors
    }
    const detail = 'cannot be changed here, nor read with these scopes: leave it out'
    expect(await refused('draft')).toContainEqual({ pointer: '/closed_date', detail })
    expect(await refused('closed')).toContainEqual({ pointer: '/closed_date', detail })
    expect((await patch(tenant, finding.id, { title: 'New' }, { 'if-match': etag })).status).toBe(200)
  })

  test('by an external id that moved meanwhile changes the finding that has it now, and keeps concurrent changes', async () => {
    const tenant = newTenant()
    const first = await made(tenant, { external_id: 'X', title: 'First' })
    const second = await made(tenant, { external_id: 'Y', title: 'Second' })
    const { system } = service.asSuperuser
    const text = `select query as text from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    const waiting = async (about: RegExp) => {
      const asked = await system(async (tx) => await tx.query<{ text: string }>({ text, values: [] }))
      return asked.filter((each) => about.test(each.text)).length
    }
    let isAnswered = false
    const { asked, other } = await system(async (moving) => {
      await write(moving, first.finding.id, 'external_id', 'Z')
      await write(moving, second.finding.id, 'external_id', 'X')
      const patched = patch(tenant, 'ext:X', { title: 'Renamed' }, { 'if-match': '*' })
      void patched.then(() => (isAnswered = true))
      await expect.poll(async () => await waiting(/for no key update/)).toBe(1)
      const writer = second.finding.id
      const explained = system(async (tx) => {
        await write(tx, writer, 'cause', 'Said by another')
        // Either of them may be first.
        await expect.poll(async () => isAnswered || (await waiting(/finding/)) === 1).toBe(true)
      })
      await expect.poll(async () => await waiting(/set cause/)).toBe(1)
      return { asked: patched, other: explained }
    })
    await other
    expect((await asked).status).toBe(200)
    const now = await Promise.all(
      [first, second].map(async ({ finding }) => {
        const { json } = await service.call(reader(tenant), 'GET', `${path}/${finding.id}`)
        return findingSchema.parse(json)
      }),
    )
    expect(now.map(({ title, cause }) => [title, cause])).toEqual([
      ['First', first.finding.cause],
      ['Renamed', 'Said by another'],
    ])
  })
})
