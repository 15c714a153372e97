import { enterpriseUrn, groupUrn, searchUrn, userUrn } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { create, errorOf, patch, people, resource, scim, useOwnWorld, world } from './scim-support.ts'
import { admin } from './support.ts'

useOwnWorld()

const search = (more: object = {}) => ({ schemas: [searchUrn], ...more })

describe('a text of several lines', () => {
  const address = '100 Main Street\nSpringfield, MI 55645'

  test.each(['\n', '\r\n', '\u2028', '\t'])(
    'is stored unchanged, and the person has it on one line (%j)',
    async (break_) => {
      const principal = admin()
      const sent = {
        displayName: `Ada${break_}Lund`,
        title: `Head of${break_}Audit`,
        name: { formatted: `Ada${break_}Lund` },
        addresses: [{ type: 'work', formatted: address, streetAddress: `100 Main Street${break_}Suite 040` }],
        [enterpriseUrn]: { department: `Risk${break_}and Control` },
      }
      const { id } = await create(principal, sent)
      expect((await scim(principal, 'GET', `/Users/${id}`)).json).toMatchObject(sent)
      expect(await people(principal.tenantId)).toMatchObject([{ name: 'Ada Lund', title: 'Head of Audit' }])
      const replaced = { op: 'replace', path: 'addresses[type eq "work"].streetAddress', value: `1${break_}2` }
      expect((await scim(principal, 'PATCH', `/Users/${id}`, patch(replaced))).status).toBe(200)
    },
  )

  test('is rejected in an identifier, and so is another control character anywhere', async () => {
    const principal = admin()
    for (const fields of [
      { userName: 'a\nb' },
      { userName: 'a', externalId: 'a\nb' },
      { userName: 'a', title: 'a\u001Bb' },
    ])
      expect((await scim(principal, 'POST', '/Users', fields)).status).toBe(400)
    expect(await people(principal.tenantId)).toEqual([])
  })
})

describe('an operation of PATCH', () => {
  test.each([null, ''])('without a path may say so with %j', async (path) => {
    const principal = admin()
    const { id } = await create(principal)
    const change = patch({ op: 'replace', path, value: { displayName: 'Z' } })
    expect((await scim(principal, 'PATCH', `/Users/${id}`, change)).json).toMatchObject({ displayName: 'Z' })
    const group = resource.parse((await scim(principal, 'POST', '/Groups', { displayName: 'G' })).json)
    expect((await scim(principal, 'PATCH', `/Groups/${group.id}`, change)).json).toMatchObject({ displayName: 'Z' })
    const removal = await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'remove', path }))
    expect(errorOf(removal)).toEqual([400, 'noTarget', expect.anything()])
  })

  test.each([true, false])('removes `active` that is %s; the user keeps its state', async (active) => {
    const principal = admin()
    const { id } = await create(principal, { active })
    const removal = await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'remove', path: 'active' }))
    expect([removal.status, removal.json]).toEqual([200, expect.not.objectContaining({ active: expect.anything() })])
    expect(await people(principal.tenantId)).toMatchObject([{ active }])
    const title = await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'add', path: 'title', value: 'T' }))
    expect(title.json).toEqual(expect.not.objectContaining({ active: expect.anything() }))
    expect(await people(principal.tenantId)).toMatchObject([{ active, title: 'T' }])
    const set = await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'replace', path: 'active', value: !active }))
    expect(set.json).toMatchObject({ active: !active })
  })

  test('treats null as missing', async () => {
    const principal = admin()
    const user = await create(principal, {
      title: 'T',
      emails: [{ value: 'a@x.example' }],
      [enterpriseUrn]: { division: 'D' },
    })
    const change = patch(
      { op: 'remove', path: 'emails', value: null },
      { op: 'replace', path: 'title', value: null },
      { op: 'replace', value: { [enterpriseUrn]: null } },
    )
    const { json } = await scim(principal, 'PATCH', `/Users/${user.id}`, change)
    for (const name of ['emails', 'title', enterpriseUrn]) expect(json).not.toHaveProperty([name])
    const members = [{ value: user.id }]
    const group = resource.parse((await scim(principal, 'POST', '/Groups', { displayName: 'G', members })).json)
    const emptied = await scim(
      principal,
      'PATCH',
      `/Groups/${group.id}`,
      patch({ op: 'remove', path: 'members', value: null }),
    )
    expect(emptied.json).toMatchObject({ members: [] })
  })

  test.each([
    ['a value', { op: 'add', value: { colour: 'red', title: 'T' } }],
    [
      'a value, by a path',
      { op: 'add', value: { 'name.colour': 'red', 'constructor.prototype.polluted': 'x', title: 'T' } },
    ],
    ['an extension', { op: 'add', value: { [enterpriseUrn]: { colour: 'red' }, title: 'T' } }],
    ['an extension, by its urn', { op: 'add', value: { [`${enterpriseUrn}:colour`]: 'red', title: 'T' } }],
    ['the core schema', { op: 'add', value: { [userUrn]: { colour: 'red', title: 'T' } } }],
  ])('leaves out unknown members of %s, as POST and PUT do', async (_of, operation) => {
    const principal = admin()
    const { id } = await create(principal, { colour: 'red', name: { colour: 'red' } })
    const { status, json, text } = await scim(principal, 'PATCH', `/Users/${id}`, patch(operation))
    expect([status, json]).toEqual([200, expect.objectContaining({ title: 'T' })])
    expect(text).not.toContain('red')
    expect(Reflect.get({}, 'polluted')).toBeUndefined()
  })

  test('leaves out an unknown attribute under the urn of a schema that is known', async () => {
    const principal = admin()
    const { id } = await create(principal)
    for (const urn of [userUrn, enterpriseUrn]) {
      const change = patch({ op: 'add', path: `${urn}:colour`, value: 'red' }, { op: 'add', path: 'title', value: 'T' })
      expect((await scim(principal, 'PATCH', `/Users/${id}`, change)).status).toBe(200)
    }
    const group = resource.parse((await scim(principal, 'POST', '/Groups', { displayName: 'G' })).json)
    const change = patch(
      { op: 'replace', value: { colour: 'red', displayName: 'H' } },
      { op: 'add', path: `${groupUrn}:colour`, value: 'x' },
    )
    expect((await scim(principal, 'PATCH', `/Groups/${group.id}`, change)).json).toMatchObject({ displayName: 'H' })
  })
})

describe('an answer shows', () => {
  const user = {
    title: 'Auditor',
    name: { familyName: 'Lund', givenName: 'Ada' },
    emails: [{ value: 'ada@x.example', type: 'work' }],
    [enterpriseUrn]: { department: 'Risk', division: 'Finance', manager: { value: 'm', displayName: 'M' } },
  }
  const shown = async (query: string) => {
    const principal = admin()
    const { id } = await create(principal, user)
    return { id, json: (await scim(principal, 'GET', `/Users/${id}?${query}`)).json }
  }

  test.each([
    ['name.familyName', { name: { givenName: 'Ada' }, emails: user.emails }],
    ['NAME.FAMILYNAME, name.givenName', { title: 'Auditor' }],
    ['emails.type', { emails: [{ value: 'ada@x.example' }] }],
    [
      `${enterpriseUrn}:department`,
      { [enterpriseUrn]: { division: 'Finance', manager: { value: 'm', displayName: 'M' } } },
    ],
    [`${enterpriseUrn}:manager.displayName`, { [enterpriseUrn]: { ...user[enterpriseUrn], manager: { value: 'm' } } }],
    [`${userUrn}:name.familyName`, { name: { givenName: 'Ada' } }],
    ['meta.location', { title: 'Auditor' }],
  ])('all but %s when that is excluded', async (names, expected) => {
    const { json } = await shown(`excludedAttributes=${encodeURIComponent(names)}`)
    expect(json).toMatchObject(expected)
    for (const [name, value] of Object.entries(expected)) expect(json).toHaveProperty([name], value)
    if (names.includes('givenName')) expect(json).not.toHaveProperty('name')
  })

  test.each([
    ['name.familyName', { name: { familyName: 'Lund' } }],
    ['emails.value', { emails: [{ value: 'ada@x.example' }] }],
    [`${enterpriseUrn}:department`, { [enterpriseUrn]: { department: 'Risk' } }],
    [enterpriseUrn, { [enterpriseUrn]: user[enterpriseUrn] }],
    ['meta.resourceType', { meta: { resourceType: 'User' } }],
    ['nothing.such', {}],
  ])('only %s when that is asked for', async (names, expected) => {
    const { id, json } = await shown(`attributes=${encodeURIComponent(names)}`)
    expect(json).toEqual({ schemas: expect.any(Array), id, ...expected })
  })
})

describe('an address', () => {
  const emails = [{ value: 'info@x.example' }]

  test.each(['deactivated', 'deleted'])('of a user who was %s passes to the successor', async (how) => {
    const principal = admin()
    const first = await create(principal, { externalId: 'a', emails })
    if (how === 'deleted') await scim(principal, 'DELETE', `/Users/${first.id}`)
    else await scim(principal, 'PATCH', `/Users/${first.id}`, patch({ op: 'replace', path: 'active', value: false }))
    await create(principal, { externalId: 'b', emails })
    expect(await people(principal.tenantId)).toMatchObject([
      { external_id: 'a', email: null, active: false },
      { external_id: 'b', email: 'info@x.example', active: true },
    ])
  })

  test('of an active user stays, and an inactive one changes without it', async () => {
    const principal = admin()
    const first = await create(principal, { externalId: 'a', emails, active: false })
    const second = await create(principal, { externalId: 'b', emails })
    const change = async (id: string, path: string, value: unknown) =>
      await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'replace', path, value }))
    expect((await change(first.id, 'title', 'Left')).json).toMatchObject({ title: 'Left', emails })
    expect(errorOf(await change(first.id, 'active', true))).toEqual([409, 'uniqueness', expect.anything()])
    await change(second.id, 'active', false)
    expect((await change(first.id, 'active', true)).status).toBe(200)
    expect(await people(principal.tenantId)).toMatchObject([
      { external_id: 'a', email: 'info@x.example', active: true },
      { external_id: 'b', email: null, active: false },
    ])
  })

  test('is unique according to the schema, as are the names of users', async () => {
    const attribute = z.looseObject({ name: z.string(), uniqueness: z.string() })
    const schema = z.object({ attributes: z.array(attribute.extend({ subAttributes: z.array(attribute).optional() })) })
    const { attributes } = schema.parse((await scim(admin(), 'GET', `/Schemas/${userUrn}`)).json)
    const unique = attributes.filter(({ uniqueness }) => uniqueness === 'server').map(({ name }) => name)
    expect(unique).toEqual(['externalId', 'userName', 'emails'])
    const parts = attributes.find(({ name }) => name === 'emails')?.subAttributes ?? []
    expect(parts.filter(({ uniqueness }) => uniqueness === 'server').map(({ name }) => name)).toEqual(['value'])
  })
})

test('the schema of groups lists the types of members and says that they are immutable', async () => {
  const attribute = z.looseObject({ name: z.string(), mutability: z.string() })
  const schema = z.object({ attributes: z.array(attribute.extend({ subAttributes: z.array(attribute).optional() })) })
  const { attributes } = schema.parse((await scim(admin(), 'GET', `/Schemas/${groupUrn}`)).json)
  expect(attributes.find(({ name }) => name === 'members')?.subAttributes).toMatchObject([
    { name: 'value', mutability: 'immutable' },
    { name: 'display', mutability: 'readOnly' },
    { name: 'type', mutability: 'immutable', canonicalValues: ['User', 'Group'] },
    { name: '$ref', mutability: 'immutable', referenceTypes: ['User', 'Group'] },
  ])
})

describe('a search by POST (RFC 7644 §3.4.3)', () => {
  const found = z.object({
    totalResults: z.number(),
    itemsPerPage: z.number(),
    Resources: z.array(z.looseObject({ id: z.string() })),
  })
  const populated = async () => {
    const principal = admin()
    const ada = await create(principal, { displayName: 'Ada', title: 'T' })
    const bo = await create(principal, { displayName: 'Bo' })
    const group = resource.parse((await scim(principal, 'POST', '/Groups', { displayName: 'Ada' })).json)
    const post = async (path: string, body: object) => found.parse((await scim(principal, 'POST', path, body)).json)
    return { principal, ada, bo, group, post }
  }

  test('finds the same users or groups as their lists', async () => {
    const { principal, ada, group, post } = await populated()
    const filter = 'displayName eq "ada"'
    const byGet = await scim(principal, 'GET', `/Users?filter=${encodeURIComponent(filter)}&attributes=title`)
    expect((await scim(principal, 'POST', '/Users/.search', search({ filter, attributes: ['title'] }))).json).toEqual(
      byGet.json,
    )
    expect((await post('/Users/.search', search({ filter }))).Resources).toMatchObject([{ id: ada.id }])
    expect((await post('/Groups/.search', search({ filter }))).Resources).toMatchObject([{ id: group.id }])
    expect(await post('/Users/.search', search({ startIndex: 2, count: 1 }))).toMatchObject({
      totalResults: 2,
      itemsPerPage: 1,
    })
    expect(await post('/Users/.search', search({ count: 0, filter: null }))).toMatchObject({
      totalResults: 2,
      itemsPerPage: 0,
    })
  })

  test('finds both at once, page by page', async () => {
    const { ada, bo, group, post } = await populated()
    const all = await post('/.search', search())
    expect([all.totalResults, new Set(all.Resources.map(({ id }) => id))]).toEqual([
      3,
      new Set([ada.id, bo.id, group.id]),
    ])
    const pages = []
    for (const startIndex of [1, 2, 3, 4])
      pages.push(...(await post('/.search', search({ startIndex, count: 1 }))).Resources)
    expect(pages).toEqual(all.Resources)
    const ids = async (filter: string) => (await post('/.search', search({ filter }))).Resources.map(({ id }) => id)
    expect(await ids('displayName eq "Ada"')).toEqual([ada.id, group.id])
    expect(await ids('title pr or meta.resourceType eq "Group"')).toEqual([ada.id, group.id])
    expect(await ids('meta.resourceType eq "User"')).toEqual([ada.id, bo.id].toSorted())
    expect(await ids(`id eq "${ada.id.toUpperCase()}" or id eq "x"`)).toEqual([ada.id])
    expect(await ids('id eq "x" or members eq "x"')).toEqual([])
  })

  test('is rejected with a filter by an unknown attribute', async () => {
    const { principal } = await populated()
    const refused = await scim(principal, 'POST', '/.search', search({ filter: 'colour eq "red"' }))
    expect(errorOf(refused)).toEqual([400, 'invalidFilter', expect.stringContaining('colour')])
  })
})

test('unsupported endpoints are 501, whatever the method', async () => {
  for (const [method, path] of [
    ['GET', '/Me'],
    ['POST', '/Me'],
    ['PUT', '/Me'],
    ['PATCH', '/Me'],
    ['DELETE', '/Me'],
    ['POST', '/Bulk'],
  ] as const) {
    const body = method === 'GET' || method === 'DELETE' ? undefined : {}
    const answer = await scim(admin(), method, path, body)
    expect([path, errorOf(answer)]).toEqual([path, [501, undefined, expect.stringContaining(path)]])
  }
})

test('paging and attributes are ignored where the service describes itself, and a filter is refused', async () => {
  for (const path of ['/Schemas', '/ResourceTypes', '/ServiceProviderConfig', `/Schemas/${userUrn}`]) {
    const plain = await scim(admin(), 'GET', path)
    expect((await scim(admin(), 'GET', `${path}?startIndex=2&count=1&attributes=id&sortBy=id`)).json).toEqual(
      plain.json,
    )
    expect(errorOf(await scim(admin(), 'GET', `${path}?filter=id%20pr`))).toEqual([403, undefined, expect.anything()])
  }
})

test('URLs of resources are absolute if the public URL is configured', async () => {
  const principal = admin()
  const { id } = await create(principal)
  expect((await scim(principal, 'GET', `/Users/${id}`)).json).toMatchObject({
    meta: { location: `https://api.example/scim/v2/Users/${id}` },
  })
  const body = { displayName: 'G', members: [{ value: id }] }
  const made = await scim(principal, 'POST', '/Groups', body)
  const location = `https://api.example/scim/v2/Groups/${resource.parse(made.json).id}`
  expect(made.headers['location']).toBe(location)
  expect(made.json).toMatchObject({
    meta: { location },
    members: [{ $ref: `https://api.example/scim/v2/Users/${id}` }],
  })
  const types = await scim(principal, 'GET', '/ResourceTypes')
  expect(types.text).toContain('https://api.example/scim/v2/ResourceTypes/User')
})

describe('an e-mail address that cannot be used', () => {
  const run = z.array(
    z.looseObject({ source_key: z.string(), field: z.string(), code: z.string(), severity: z.string() }),
  )
  const warningsOf = async (tenantId: string) =>
    run
      .parse(
        await world.rows('select source_key, field, code, severity from sync.run_error where tenant_id = $1', [
          tenantId,
        ]),
      )
      .map(({ source_key, field, code, severity }) => [source_key, field, code, severity])

  test.each(['n/a', `${'a'.repeat(300)}@x.example`])(
    'is dropped only from the person; the user is stored unchanged and the run has a warning (%#)',
    async (value) => {
      const principal = admin()
      const emails = [{ value, primary: true }]
      const { id } = await create(principal, { externalId: 'e', displayName: 'Ada', emails })
      expect((await scim(principal, 'GET', `/Users/${id}`)).json).toMatchObject({ emails })
      expect(await people(principal.tenantId)).toMatchObject([{ external_id: 'e', name: 'Ada', email: null }])
      expect(await warningsOf(principal.tenantId)).toEqual([['e', 'emails', 'unusable_address', 'warning']])
      const mended = patch({ op: 'replace', path: 'emails', value: [{ value: 'ada@x.example' }] })
      expect((await scim(principal, 'PATCH', `/Users/${id}`, mended)).status).toBe(200)
      expect(await people(principal.tenantId)).toMatchObject([{ email: 'ada@x.example' }])
      const broken = patch({ op: 'replace', path: 'emails', value: emails })
      expect((await scim(principal, 'PATCH', `/Users/${id}`, broken)).status).toBe(200)
      expect(await people(principal.tenantId)).toMatchObject([{ email: null }])
    },
  )

  test('is replaced by another address of the user', async () => {
    const principal = admin()
    const emails = [
      { value: 'n/a', primary: true },
      { value: 'home@x.example' },
      { value: 'work@x.example', type: 'work' },
    ]
    await create(principal, { externalId: 'e', emails })
    expect(await people(principal.tenantId)).toMatchObject([{ email: 'work@x.example' }])
    expect(await warningsOf(principal.tenantId)).toEqual([])
  })

  test('of a manager leaves the unit its head, known only by name', async () => {
    const principal = admin()
    const head = await create(principal, { displayName: 'Mia Falk', emails: [{ value: 'n/a' }] })
    await create(principal, { [enterpriseUrn]: { department: 'Risk', manager: { value: head.id } } })
    const rows = await world.rows('select head from universe.node where tenant_id = $1', [principal.tenantId])
    expect(rows.map((node) => node['head'])).toContainEqual({ name: 'Mia Falk' })
  })
})
