import { enterpriseUrn } from '@postern/contracts'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { create, errorOf, nodes, patch, people, resource, scim, useOwnWorld } from './scim-support.ts'
import { admin } from './support.ts'

useOwnWorld()

test.each([
  ['a removal', 'PATCH', patch({ op: 'Remove', path: 'active' })],
  ['a null', 'PATCH', patch({ op: 'Replace', path: 'active', value: null })],
  ['a null among others', 'PATCH', patch({ op: 'Replace', value: { active: null, title: 'T' } })],
  ['a whole user that leaves it out', 'PUT', { userName: 'ada@x.example', displayName: 'Ada' }],
  ['a whole user that has it as null', 'PUT', { userName: 'ada@x.example', active: null }],
])('a user who has left does not return by %s of active', async (_what, method, body) => {
  const principal = admin()
  const { id } = await create(principal, { externalId: 'a', active: false })
  const answer = await scim(principal, method, `/Users/${id}`, body)
  expect(answer.status).toBe(200)
  // A removed attribute is unassigned (RFC 7644, section 3.5.2.2); one that a PUT leaves out keeps its value.
  expect(z.looseObject({ active: z.boolean().optional() }).parse(answer.json).active).toBe(
    method === 'PUT' ? false : undefined,
  )
  expect(await people(principal.tenantId)).toMatchObject([{ external_id: 'a', active: false }])
})

test.each([
  ['is added', { op: 'Add', path: 'emails', value: [{ value: 'new@x.example', type: 'home', primary: true }] }],
  ['is named by a filter', { op: 'Replace', path: 'emails[type eq "other"].primary', value: 'True' }],
])('an address that %s as the primary one is the only primary one, and the person has it', async (_how, operation) => {
  const principal = admin()
  const work = { value: 'old@x.example', type: 'work', primary: true }
  const { id } = await create(principal, {
    externalId: 'a',
    emails: [work, { value: 'other@x.example', type: 'other' }],
  })
  const { json } = await scim(principal, 'PATCH', `/Users/${id}`, patch(operation))
  const { emails } = z
    .object({ emails: z.array(z.looseObject({ value: z.string(), primary: z.boolean().optional() })) })
    .parse(json)
  const chosen = operation.op === 'Add' ? 'new@x.example' : 'other@x.example'
  expect(emails.filter(({ primary }) => primary === true).map(({ value }) => value)).toEqual([chosen])
  expect(await people(principal.tenantId)).toMatchObject([{ email: chosen }])
})

test.each([
  ['a part of a missing value', { op: 'Remove', path: 'emails[type eq "home"].value' }],
  ['a whole missing value', { op: 'Remove', path: 'emails[type eq "home"]' }],
  ['a missing value by an empty text', { op: 'Replace', path: 'phoneNumbers[type eq "fax"].value', value: '' }],
  ['a missing value by null', { op: 'Replace', path: 'addresses[type eq "home"].locality', value: null }],
])('an operation that removes %s succeeds, and the other operations are applied', async (_what, operation) => {
  const principal = admin()
  const emails = [{ value: 'ada@x.example', type: 'work' }]
  const { id } = await create(principal, { emails, phoneNumbers: [{ value: 'tel:+1-201', type: 'work' }] })
  const answer = await scim(
    principal,
    'PATCH',
    `/Users/${id}`,
    patch(operation, { op: 'Add', path: 'title', value: 'T' }),
  )
  expect([answer.status, answer.json]).toMatchObject([200, { title: 'T', emails }])
})

test('a filter selects values case-insensitively, whatever their text', async () => {
  const principal = admin()
  const { id } = await create(principal, {
    emails: [{ value: 'ada@x.example', type: 'work' }],
    phoneNumbers: [
      { value: 'tel:+1-201', type: 'work' },
      { value: 'tel:+1-202', type: 'home' },
    ],
  })
  const changes = patch(
    { op: 'Replace', path: 'emails[type eq "Work"].value', value: 'lund@x.example' },
    { op: 'Remove', path: 'phoneNumbers[value eq "tel:+1-201" and not (type eq "home")]' },
    { op: 'Add', path: 'phoneNumbers', value: { value: 'tel:+1-203', type: 'fax' } },
  )
  expect((await scim(principal, 'PATCH', `/Users/${id}`, changes)).json).toMatchObject({
    emails: [{ value: 'lund@x.example', type: 'work' }],
    phoneNumbers: [
      { value: 'tel:+1-202', type: 'home' },
      { value: 'tel:+1-203', type: 'fax' },
    ],
  })
})

test('an operation that names values removes only those', async () => {
  const principal = admin()
  const emails = [
    { value: 'ada@x.example', type: 'work', primary: true },
    { value: 'lund@x.example', type: 'home' },
  ]
  const phoneNumbers = [{ value: '1', type: 'work' }, { value: '2' }, { value: '3' }]
  const { id } = await create(principal, { emails, phoneNumbers })
  const change = async (...operations: unknown[]) =>
    (await scim(principal, 'PATCH', `/Users/${id}`, patch(...operations))).json
  const named = { Value: 'LUND@x.example', type: 'home', primary: false, display: null }
  const changed = await change(
    { op: 'Remove', path: 'emails', value: [named, { value: 'nobody@x.example' }] },
    { op: 'Remove', path: 'phoneNumbers', value: [{ value: '1', type: 'mobile' }, { value: '2' }] },
    { op: 'Remove', path: 'phoneNumbers', value: '3' },
  )
  expect(changed).toMatchObject({ emails: [emails[0]], phoneNumbers: [{ value: '1', type: 'work' }] })
  expect(await people(principal.tenantId)).toMatchObject([{ email: 'ada@x.example' }])
  // The operation selects no value.
  expect(await change({ op: 'Remove', path: 'emails', value: [] })).toMatchObject({ emails: [emails[0]] })
  const untold = await scim(
    principal,
    'PATCH',
    `/Users/${id}`,
    patch({ op: 'Remove', path: 'emails', value: [{ primary: true }] }),
  )
  expect(errorOf(untold)).toEqual([400, 'invalidValue', expect.anything()])
  expect(await change({ op: 'Remove', path: 'emails' })).not.toHaveProperty('emails')
})

test.each([
  ['a list without such a value', [{ value: 'ada@x.example', type: 'home' }]],
  ['a missing list', undefined],
])('a value for a filter that selects none is added, but replaces nothing: %s', async (_what, emails = []) => {
  const principal = admin()
  const { id } = await create(principal, emails.length === 0 ? {} : { emails })
  const send = async (op: string, path: string) =>
    await scim(principal, 'PATCH', `/Users/${id}`, patch({ op, path, value: { value: 'lund@x.example' } }))
  for (const [op, path] of [
    ['Replace', 'emails[type eq "work"]'],
    ['Add', 'emails[type eq "work" and primary eq true]'],
  ] as const) {
    expect(errorOf(await send(op, path))).toEqual([400, 'noTarget', expect.anything()])
  }
  const added = [...emails, { type: 'work', value: 'lund@x.example' }]
  expect((await send('Add', 'emails[type eq "work"]')).json).toMatchObject({ emails: added })
})

test('the replacement of a selected value may be a list of one, but not of several', async () => {
  const principal = admin()
  const emails = [{ value: 'ada@x.example', type: 'work', primary: true }]
  const { id } = await create(principal, { emails })
  const replace = async (value: unknown) =>
    await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'Replace', path: 'emails[type eq "work"]', value }))
  const moved = { value: 'berg@x.example', type: 'work', primary: true }
  expect((await replace([moved])).json).toMatchObject({ emails: [moved] })
  expect(await people(principal.tenantId)).toMatchObject([{ email: 'berg@x.example' }])
  expect(errorOf(await replace([moved, emails[0]]))).toEqual([400, 'invalidValue', expect.anything()])
  expect((await replace([])).json).not.toHaveProperty('emails')
})

test.each([
  ['by its path', { op: 'Add', path: 'urn:ietf:params:scim:schemas:extension:acme:2.0:User:badge', value: '7' }],
  ['as a whole', { op: 'Add', value: { 'urn:ietf:params:scim:schemas:extension:acme:2.0:User': { badge: '7' } } }],
  ['to be removed', { op: 'Remove', path: 'urn:acme:hr:User:badge' }],
  ['by a filter', { op: 'Add', path: 'urn:acme:hr:User:badges[type eq "door"].value', value: '7' }],
])('an attribute of the provider’s own schema, %s, does not prevent a deactivation', async (_how, operation) => {
  const principal = admin()
  const user = await create(principal, { externalId: 'a' })
  const left = { op: 'Replace', path: 'active', value: 'False' }
  const changed = await scim(principal, 'PATCH', `/Users/${user.id}`, patch(operation, left))
  expect([changed.status, changed.json]).toEqual([200, expect.objectContaining({ active: false })])
  expect(changed.text).not.toContain('badge')
  expect(await people(principal.tenantId)).toMatchObject([{ external_id: 'a', active: false }])
  const group = resource.parse((await scim(principal, 'POST', '/Groups', { displayName: 'Audit' })).json)
  const joins = { op: 'Add', path: 'members', value: [{ value: user.id }] }
  const joined = await scim(principal, 'PATCH', `/Groups/${group.id}`, patch(operation, joins))
  expect([joined.status, joined.json]).toMatchObject([200, { members: [{ value: user.id }] }])
})

test.each(['core:2.0:Person:title', 'extension:enterprise:2.0:Users:department', 'core:2.0:User'])(
  'a misspelt or incomplete SCIM schema does not count as the provider’s own: %s',
  async (name) => {
    const principal = admin()
    const { id } = await create(principal)
    const path = `urn:ietf:params:scim:schemas:${name}`
    const answer = await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'Add', path, value: 'x' }))
    expect(errorOf(answer)).toEqual([400, 'invalidPath', expect.anything()])
  },
)

test('attributes are changed under the urn of their schema, and an extension is removed as a whole', async () => {
  const principal = admin()
  const user = { title: 'Clerk', [enterpriseUrn]: { department: 'Risk', division: 'Finance', manager: '9c0f' } }
  const { id } = await create(principal, user)
  const change = async (operation: unknown) => (await scim(principal, 'PATCH', `/Users/${id}`, patch(operation))).json
  const core = { 'urn:ietf:params:scim:schemas:core:2.0:User': { title: 'Auditor' } }
  expect(await change({ op: 'Replace', value: core })).toMatchObject({ title: 'Auditor' })
  expect(await change({ op: 'Remove', path: enterpriseUrn })).not.toHaveProperty([enterpriseUrn])
  expect(await nodes(principal.tenantId)).toEqual([
    ['department:Finance/Risk', 'inactive'],
    ['division:Finance', 'inactive'],
  ])
})

const urn = `${enterpriseUrn}:manager`

test.each([
  [
    'as a list of one, as Entra ID sent it',
    { op: 'Add', path: urn, value: [{ $ref: '../Users/9c0f', value: '9c0f' }] },
  ],
  ['as its value', { op: 'Replace', path: urn, value: { value: '9c0f' } }],
  ['as an id', { op: 'Add', path: urn, value: '9c0f' }],
  ['without a path', { op: 'Add', value: { [enterpriseUrn]: { manager: [{ value: '9c0f' }] } } }],
])('a manager is accepted %s', async (_how, operation) => {
  const principal = admin()
  const { id } = await create(principal)
  const answer = await scim(principal, 'PATCH', `/Users/${id}`, patch(operation))
  expect(answer.status, answer.text).toBe(200)
  expect(answer.json).toMatchObject({ [enterpriseUrn]: { manager: { value: '9c0f' } } })
})

test.each([[[{ value: 'a' }, { value: 'b' }]], [true], [[[]]], [{ value: { value: 'a' } }]])(
  'a manager cannot be %j, and stays unchanged',
  async (value) => {
    const principal = admin()
    const { id } = await create(principal, { [enterpriseUrn]: { manager: '9c0f' } })
    const answer = await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'Add', path: urn, value }))
    expect(errorOf(answer)).toEqual([400, 'invalidValue', expect.anything()])
    const { json } = await scim(principal, 'GET', `/Users/${id}`)
    expect(json).toMatchObject({ [enterpriseUrn]: { manager: { value: '9c0f' } } })
  },
)
