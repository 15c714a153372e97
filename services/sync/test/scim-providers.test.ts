import { enterpriseUrn } from '@postern/contracts'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { admin } from './support.ts'
import { create, nodes, patch, people, resource, scim, useOwnWorld, world } from './scim-support.ts'

useOwnWorld()

test('as Microsoft Entra ID does it: a user is searched, created, changed, deactivated and deleted, and the person follows', async () => {
  const principal = admin()
  const query = `/Users?filter=${encodeURIComponent('userName eq "Ada.Lund@x.example"')}`
  expect((await scim(principal, 'GET', query)).json).toMatchObject({ totalResults: 0, Resources: [] })
  const made = await create(principal, {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:User', enterpriseUrn],
    externalId: 'f2a1',
    userName: 'ada.lund@x.example',
    active: true,
    emails: [{ primary: true, type: 'work', value: 'Ada.Lund@x.example' }],
    meta: { resourceType: 'User' },
    name: { formatted: 'Ada Lund', familyName: 'Lund', givenName: 'Ada' },
    roles: [],
    [enterpriseUrn]: { department: 'Treasury', division: 'Finance' },
  })
  expect((await scim(principal, 'GET', query)).json).toMatchObject({ totalResults: 1, Resources: [{ id: made.id }] })
  const person = { external_id: 'f2a1', name: 'Ada Lund', email: 'ada.lund@x.example', title: null, active: true }
  expect(await people(principal.tenantId)).toEqual([person])
  expect(await nodes(principal.tenantId)).toEqual([
    ['department:Finance/Treasury', 'active'],
    ['division:Finance', 'active'],
  ])
  const changed = await scim(
    principal,
    'PATCH',
    `/Users/${made.id}`,
    patch(
      { op: 'Replace', path: 'emails[type eq "work"].value', value: 'ada@x.example' },
      { op: 'Add', path: 'phoneNumbers[type eq "mobile"].value', value: '+47 1' },
      { op: 'Replace', path: 'name.familyName', value: 'Berg' },
      { op: 'Add', path: `${enterpriseUrn}:manager`, value: '9c0f' },
      {
        op: 'Replace',
        value: { displayName: 'Ada Berg', title: 'Treasurer', [`${enterpriseUrn}:department`]: 'Risk' },
      },
    ),
  )
  expect([changed.status, changed.json]).toEqual([
    200,
    expect.objectContaining({
      displayName: 'Ada Berg',
      emails: [{ primary: true, type: 'work', value: 'ada@x.example' }],
      phoneNumbers: [{ type: 'mobile', value: '+47 1' }],
      [enterpriseUrn]: { department: 'Risk', division: 'Finance', manager: { value: '9c0f' } },
    }),
  ])
  expect(await people(principal.tenantId)).toEqual([
    { ...person, name: 'Ada Berg', email: 'ada@x.example', title: 'Treasurer' },
  ])
  // One unit has no users left, the other is new, the division stays.
  expect(await nodes(principal.tenantId)).toEqual([
    ['department:Finance/Risk', 'active'],
    ['department:Finance/Treasury', 'inactive'],
    ['division:Finance', 'active'],
  ])
  await scim(principal, 'PATCH', `/Users/${made.id}`, patch({ op: 'Replace', path: 'active', value: 'False' }))
  expect(await people(principal.tenantId)).toMatchObject([{ active: false }])
  expect(await nodes(principal.tenantId)).toMatchObject([
    [expect.anything(), 'inactive'],
    expect.anything(),
    ['division:Finance', 'inactive'],
  ])
  expect((await scim(principal, 'DELETE', `/Users/${made.id}`)).status).toBe(204)
  expect((await scim(principal, 'GET', `/Users/${made.id}`)).status).toBe(404)
  expect(await people(principal.tenantId)).toMatchObject([{ external_id: 'f2a1', active: false }])
})

test('a group has a new version when a member is renamed or deleted', async () => {
  const principal = admin()
  const [ada, bo] = [await create(principal, { displayName: 'Ada' }), await create(principal)]
  const members = [{ value: ada.id }, { value: bo.id }]
  const { id } = resource.parse((await scim(principal, 'POST', '/Groups', { displayName: 'Audit', members })).json)
  const read = async (known = '""') =>
    await scim(principal, 'GET', `/Groups/${id}`, undefined, { 'if-none-match': known })
  const first = (await read()).headers['etag']
  expect((await read(first)).status).toBe(304)
  await scim(principal, 'PATCH', `/Users/${ada.id}`, patch({ op: 'Replace', path: 'displayName', value: 'Ada L.' }))
  const second = await read(first)
  expect([second.status, second.json]).toMatchObject([
    200,
    {
      members: expect.arrayContaining([{ value: ada.id, display: 'Ada L.', type: 'User', $ref: expect.anything() }]),
    },
  ])
  await scim(principal, 'DELETE', `/Users/${bo.id}`)
  const third = await read(second.headers['etag'])
  expect([third.status, third.json]).toMatchObject([200, { members: [{ value: ada.id }] }])
})

test('a user who is deleted and created again is the same person; one with the address of a former user is not', async () => {
  const principal = admin()
  const emails = [{ value: 'bo@x.example' }]
  const first = await create(principal, { userName: 'bo', externalId: 'b-1', emails })
  await scim(principal, 'DELETE', `/Users/${first.id}`)
  const again = await create(principal, { userName: 'bo', externalId: 'b-1', emails })
  expect(again.id).not.toBe(first.id)
  expect(await people(principal.tenantId)).toMatchObject([{ external_id: 'b-1', active: true }])
  await scim(principal, 'DELETE', `/Users/${again.id}`)
  await create(principal, { userName: 'bo', externalId: 'b-2', emails })
  expect(await people(principal.tenantId)).toMatchObject([
    { external_id: 'b-1', email: null, active: false },
    { external_id: 'b-2', email: 'bo@x.example', active: true },
  ])
})

test('a group is made, filled, emptied by a filter and found without its members', async () => {
  const principal = admin()
  const [ada, bo] = [await create(principal, { displayName: 'Ada' }), await create(principal)]
  const made = resource.parse(
    (await scim(principal, 'POST', '/Groups', { displayName: 'Audit', externalId: 'g' })).json,
  )
  const members = async () => {
    const { json } = await scim(principal, 'GET', `/Groups/${made.id}`)
    return z
      .object({ members: z.array(z.object({ value: z.string() })) })
      .parse(json)
      .members.map(({ value }) => value)
  }
  const change = async (...operations: unknown[]) =>
    (await scim(principal, 'PATCH', `/Groups/${made.id}`, patch(...operations))).status
  expect(
    await change({ op: 'Add', path: 'members', value: [{ value: ada.id }, { value: bo.id }, { value: ada.id }] }),
  ).toBe(200)
  expect((await members()).toSorted()).toEqual([ada.id, bo.id].toSorted())
  expect(await change({ op: 'Remove', path: `members[value eq "${ada.id}"]` })).toBe(200)
  expect(await members()).toEqual([bo.id])
  expect(
    await change(
      { op: 'Remove', path: 'members', value: [{ value: bo.id }] },
      { op: 'Replace', value: { displayName: 'IA' } },
    ),
  ).toBe(200)
  expect(await members()).toEqual([])
  await change({ op: 'Add', path: 'members', value: [{ value: ada.id }] })
  const query = `/Groups?excludedAttributes=members&filter=${encodeURIComponent('displayName eq "ia"')}`
  expect((await scim(principal, 'GET', query)).json).toEqual(
    expect.objectContaining({ Resources: [expect.not.objectContaining({ members: expect.anything() })] }),
  )
  await scim(principal, 'DELETE', `/Users/${ada.id}`)
  expect(await members()).toEqual([])
  expect((await scim(principal, 'DELETE', `/Groups/${made.id}`)).status).toBe(204)
  expect((await scim(principal, 'GET', '/Groups')).json).toMatchObject({ totalResults: 0 })
})

test('a flag of Entra ID in the URL is accepted, and another parameter is rejected', async () => {
  const principal = admin()
  const flag = 'aadOptscim062020'
  const userSchema = 'urn:ietf:params:scim:schemas:core:2.0:User'
  for (const path of [
    '/ServiceProviderConfig',
    '/ResourceTypes',
    '/ResourceTypes/User',
    '/Schemas',
    `/Schemas/${userSchema}`,
  ]) {
    expect((await scim(principal, 'GET', `${path}?${flag}`)).status, path).toBe(200)
  }
  const made = await scim(principal, 'POST', `/Users?${flag}`, { schemas: [userSchema], userName: 'flo@x.example' })
  expect(made.status).toBe(201)
  const { id } = resource.parse(made.json)
  const found = await scim(
    principal,
    'GET',
    `/Users?${flag}=true&filter=${encodeURIComponent('userName eq "flo@x.example"')}`,
  )
  expect(found.json).toMatchObject({ totalResults: 1 })
  const leaver = patch({ op: 'Replace', path: 'active', value: 'False' })
  expect((await scim(principal, 'PATCH', `/Users/${id}?${flag}`, leaver)).json).toMatchObject({ active: false })
  expect((await scim(principal, 'DELETE', `/Users/${id}?${flag}`)).status).toBe(204)
  expect((await scim(principal, 'GET', '/Users?aadOptAnything')).status).toBe(400)
})

test('a group has a new version when a group in it is renamed', async () => {
  const principal = admin()
  const make = async (body: object) => resource.parse((await scim(principal, 'POST', '/Groups', body)).json)
  const inner = await make({ displayName: 'Inner' })
  const outer = await make({ displayName: 'Outer', members: [{ value: inner.id }] })
  const read = async () => await scim(principal, 'GET', `/Groups/${outer.id}`)
  const before = await read()
  await scim(principal, 'PATCH', `/Groups/${inner.id}`, patch({ op: 'Replace', value: { displayName: 'Renamed' } }))
  const after = await read()
  expect(after.json).toMatchObject({ members: [{ display: 'Renamed' }] })
  expect(after.headers['etag']).not.toBe(before.headers['etag'])
})

test('a page that is too large is cut to the limit, and an invalid number is reported in the SCIM detail', async () => {
  const principal = admin()
  await create(principal)
  const all = await scim(principal, 'GET', '/Users?count=999999999999&startIndex=1')
  expect([all.status, all.json]).toMatchObject([200, { totalResults: 1, itemsPerPage: 1 }])
  expect(await scim(principal, 'GET', '/Users?count=999999999999&startIndex=999999999999999')).toMatchObject({
    status: 200,
    json: { totalResults: 1, itemsPerPage: 0 },
  })
  const odd = await scim(principal, 'GET', '/Users?count=many')
  expect(odd).toMatchObject({ status: 400, json: { detail: expect.stringContaining('count must be a whole number') } })
  expect(odd.text).not.toContain('`errors`')
})

test('as Okta does it: a page of users, a whole user put back, and a push of members', async () => {
  const principal = admin()
  const users = [await create(principal), await create(principal), await create(principal)]
  const pages = await Promise.all(
    [1, 3, 9].map(async (at) => (await scim(principal, 'GET', `/Users?startIndex=${at}&count=2`)).json),
  )
  expect(pages).toMatchObject([
    { totalResults: 3, startIndex: 1, itemsPerPage: 2 },
    { totalResults: 3, startIndex: 3, itemsPerPage: 1 },
    { totalResults: 3, itemsPerPage: 0, Resources: [] },
  ])
  const [first] = users
  const read = await scim(principal, 'GET', `/Users/${first?.id}`, undefined, { accept: 'application/json' })
  expect(read.headers['content-type']).toBe('application/json; charset=utf-8')
  const whole = { ...resource.parse(read.json), active: false, password: 'not kept', nickName: null }
  const put = await scim(principal, 'PUT', `/Users/${first?.id}`, whole)
  expect([put.status, put.headers['content-type'], put.json]).toEqual([
    200,
    'application/scim+json; charset=utf-8',
    expect.objectContaining({ active: false }),
  ])
  expect(put.text).not.toContain('not kept')
  const kept = await world.rows('select content::text as text from sync.scim_user where tenant_id = $1', [
    principal.tenantId,
  ])
  expect(JSON.stringify(kept)).not.toContain('not kept')
  // No new version and no run.
  const runs = async () =>
    (await world.rows('select id from sync.run where tenant_id = $1', [principal.tenantId])).length
  const before = await runs()
  const again = await scim(principal, 'PUT', `/Users/${first?.id}`, whole)
  expect([again.headers['etag'], await runs()]).toEqual([put.headers['etag'], before])
})

test('a repeated creation with its Idempotency-Key has the same response', async () => {
  const principal = admin()
  const key = { 'idempotency-key': '"again"' }
  const [first, second] = [
    await scim(principal, 'POST', '/Users', { userName: 'twice' }, key),
    await scim(principal, 'POST', '/Users', { userName: 'twice' }, key),
  ]
  expect([second.status, second.json, second.headers['idempotent-replayed']]).toEqual([201, first.json, 'true'])
  expect(second.headers['content-type']).toBe(first.headers['content-type'])
})

test('a user has only the requested attributes (RFC 7644 §3.9), also after it is created, replaced or changed', async () => {
  const principal = admin()
  const user = { userName: 'ada@x.example', title: 'Auditor', externalId: 'e1' }
  const made = await scim(principal, 'POST', '/Users?attributes=userName', user)
  const { id } = z.object({ id: z.string() }).parse(made.json)
  const brief = { schemas: expect.any(Array), id, userName: 'ada@x.example' }
  expect([made.status, made.json]).toEqual([201, brief])
  expect(made.headers['etag']).toMatch(/^"/)
  expect((await scim(principal, 'PUT', `/Users/${id}?attributes=userName`, user)).json).toEqual(brief)
  const change = patch({ op: 'Replace', path: 'title', value: 'Chief auditor' })
  const changed = await scim(principal, 'PATCH', `/Users/${id}?excludedAttributes=meta,externalId,title,active`, change)
  expect(changed.json).toEqual(brief)
  expect((await scim(principal, 'GET', `/Users/${id}`)).json).toMatchObject({ title: 'Chief auditor' })
})

test('a group has only the requested attributes (RFC 7644 §3.9), also after it is created, replaced or changed', async () => {
  const principal = admin()
  const ada = await create(principal, { userName: 'ada@x.example' })
  const body = { displayName: 'IA', members: [{ value: ada.id }] }
  const made = await scim(principal, 'POST', '/Groups?excludedAttributes=members', body)
  const { id } = resource.parse(made.json)
  const target = `/Groups/${id}?excludedAttributes=members`
  const change = patch({ op: 'Replace', path: 'displayName', value: 'Internal audit' })
  const answers = [
    made,
    await scim(principal, 'GET', target),
    await scim(principal, 'PUT', target, body),
    await scim(principal, 'PATCH', target, change),
  ]
  for (const { json } of answers) expect(json).toEqual(expect.not.objectContaining({ members: expect.anything() }))
  expect(answers.map(({ status }) => status)).toEqual([201, 200, 200, 200])
  expect((await scim(principal, 'GET', `/Groups/${id}`)).json).toMatchObject({
    displayName: 'Internal audit',
    members: [{ value: ada.id }],
  })
})
