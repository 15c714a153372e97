import { randomUUID } from 'node:crypto'
import { enterpriseUrn } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { admin } from './support.ts'
import { create, errorOf, patch, people, resource, scim, sync, useOwnWorld, words, world } from './scim-support.ts'

useOwnWorld()

describe('a rejected request has a SCIM error and changes nothing:', () => {
  test.each([
    ['a user without a userName', 'POST', '/Users', { active: true }, [400, 'invalidValue', 'userName']],
    ['an invalid filter', 'GET', '/Users?filter=userName', undefined, [400, 'invalidFilter', 'filter']],
    [
      'a filter with an invalid boolean',
      'GET',
      '/Users?filter=active%20eq%20%22%22',
      undefined,
      [400, 'invalidFilter', 'filter'],
    ],
    [
      'a filter by what is not kept',
      'GET',
      '/Users?filter=password%20eq%20%22x%22',
      undefined,
      [400, 'invalidFilter', 'password'],
    ],
    ['a parameter that there is not', 'GET', '/Users?limit=1', undefined, [400, undefined, 'limit']],
    ['a user that there is not', 'GET', `/Users/${randomUUID()}`, undefined, [404, undefined, '.']],
    ['a path that is no id', 'PUT', '/Groups/mine', { displayName: 'u' }, [404, undefined, '.']],
    [
      'a group with a member that nobody is',
      'POST',
      '/Groups',
      { displayName: 'G', members: [{ value: randomUUID() }] },
      [400, 'invalidValue', 'members'],
    ],
  ])('%s', async (_what, method, path, body, [status, scimType, detail]) => {
    const principal = admin()
    expect(errorOf(await scim(principal, method, path, body))).toEqual([
      status,
      scimType,
      expect.stringMatching(String(detail)),
    ])
    expect(await people(principal.tenantId)).toEqual([])
  })

  test('a body that is not JSON', async () => {
    const headers = { 'content-type': 'application/scim+json' }
    const answer = await world
      .syncCaller(sync.url)
      .call(admin(), 'POST', '/scim/v2/Users', { body: Buffer.from('{'), headers })
    expect(errorOf(answer)).toEqual([400, 'invalidSyntax', expect.anything()])
  })

  test.each([
    ['an attribute that there is not', { op: 'add', path: 'colour', value: 'x' }, 'invalidPath'],
    ['the prototype of all objects', { op: 'add', path: '__proto__.polluted', value: 'x' }, 'invalidPath'],
    ['the same in a filter', { op: 'add', path: 'emails[constructor eq "x"].value', value: 'x' }, 'invalidFilter'],
    ['an invalid filter', { op: 'replace', path: 'emails[type].value', value: 'x' }, 'invalidFilter'],
    ['an operation that there is not', { op: 'move', path: 'title', value: 'x' }, 'invalidValue'],
    ['a removal of the userName', { op: 'remove', path: 'userName' }, 'invalidValue'],
    ['a removal of nothing', { op: 'remove' }, 'noTarget'],
    ['a text that is no flag', { op: 'replace', path: 'active', value: 'perhaps' }, 'invalidValue'],
    ['an empty text that is no flag', { op: 'replace', path: 'active', value: '' }, 'invalidValue'],
    ['the same without a path', { op: 'replace', value: { active: '' } }, 'invalidValue'],
  ])('a change of %s', async (_what, operation, scimType) => {
    const principal = admin()
    const { id, meta } = await create(principal)
    expect(
      errorOf(
        await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'add', path: 'title', value: 'T' }, operation)),
      ),
    ).toEqual([400, scimType, expect.anything()])
    expect(Reflect.get({}, 'polluted')).toBeUndefined()
    expect((await scim(principal, 'GET', `/Users/${id}`)).headers['etag']).toBe(meta.version)
  })

  test('a userName, an externalId or an address that another one has', async () => {
    const principal = admin()
    const { userName } = await create(principal, { externalId: 'e-1', emails: [{ value: 'ada@x.example' }] })
    for (const fields of [
      { userName: userName.toUpperCase() },
      { userName: 'other', externalId: 'e-1' },
      { userName: 'third', emails: [{ value: 'ADA@x.example' }] },
    ]) {
      expect(errorOf(await scim(principal, 'POST', '/Users', fields))).toEqual([409, 'uniqueness', expect.anything()])
    }
    expect(await people(principal.tenantId)).toHaveLength(1)
  })

  test('a change of a user whom somebody else has changed', async () => {
    const principal = admin()
    const { id, meta } = await create(principal)
    const stale = { 'if-match': meta.version }
    expect(
      (await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'add', path: 'title', value: 'A' }), stale)).status,
    ).toBe(200)
    for (const [method, body] of [
      ['PATCH', patch({ op: 'add', path: 'title', value: 'B' })],
      ['PUT', { userName: 'u' }],
      ['DELETE', undefined],
    ] as const) {
      expect(errorOf(await scim(principal, method, `/Users/${id}`, body, stale))).toEqual([
        412,
        undefined,
        expect.anything(),
      ])
    }
  })

  test("another tenant's user, as if there were none", async () => {
    const [principal, other] = [admin(), admin()]
    const { id, userName } = await create(principal)
    const absent = `/Users/${randomUUID()}`
    for (const [method, body] of [
      ['GET'],
      ['PUT', { userName }],
      ['PATCH', patch({ op: 'add', path: 'title', value: 'x' })],
      ['DELETE'],
    ] as const) {
      const [theirs, nobodys] = [
        await scim(other, method, `/Users/${id}`, body),
        await scim(other, method, absent, body),
      ]
      expect([theirs.status, words(theirs)]).toEqual([404, words(nobodys)])
    }
    expect((await scim(other, 'GET', '/Users')).json).toMatchObject({ totalResults: 0, Resources: [] })
    expect((await scim(principal, 'GET', `/Users/${id}`)).status).toBe(200)
  })
})

test.each([
  'constructor eq "x"',
  '__proto__ eq "x"',
  'constructor pr',
  'emails.constructor pr',
  'constructor[value eq "x"]',
  'active eq "constructor"',
  'toString eq "x"',
])('a member of Object.prototype is neither an attribute nor a value: %s', async (filter) => {
  for (const list of ['Users', 'Groups']) {
    const answer = await scim(admin(), 'GET', `/${list}?filter=${encodeURIComponent(filter)}`)
    expect(errorOf(answer)).toEqual([400, 'invalidFilter', expect.anything()])
  }
})

test.each(['0001-01-01T00:00:00+01:00', '0000-01-01T00:00:00Z', '+200000-01-01T00:00:00Z', 'x'])(
  'a filter with an impossible time is rejected: %s',
  async (time) => {
    for (const list of ['Users', 'Groups']) {
      const filter = encodeURIComponent(`meta.lastModified gt "${time}"`)
      const answer = await scim(admin(), 'GET', `/${list}?filter=${filter}`)
      expect(errorOf(answer)).toEqual([400, 'invalidFilter', expect.anything()])
    }
  },
)

test.each([
  ['userName eq "A1"', 1],
  ['userName sw "a" and active eq true', 1],
  ['not (active eq true)', 1],
  ['externalId eq "E2" or externalId eq "e2"', 1],
  ['emails[type eq "work" and value ew "x.example"]', 1],
  ['emails.value co "@"', 2],
  ['emails[type eq "work"].value eq "A@x.example"', 1],
  ['emails[type eq "home"].value eq "a@x.example"', 0],
  ['not (emails[type eq "home" or type eq "other"].value sw "a9") and emails[type eq "work"].value pr', 1],
  // Of what is not there nothing is true.
  ['not (manager eq "m-1")', 1],
  [`not (${enterpriseUrn}:department eq "Risk") and active eq true`, 1],
  ['not (not (externalId eq "e2"))', 1],
  ['emails[primary ne true]', 2],
  ['emails[type eq "home"] and emails.value eq "a2@x.example"', 0],
  ['emails[type eq "work"] and emails.value eq "a2@x.example"', 1],
  ['manager eq "m-1"', 1],
  [`userName eq "a1" and ${enterpriseUrn}:manager.value eq "m-1"`, 1],
  ['name.familyName ge "m"', 1],
  ['meta.lastModified gt "2020-01-01T00:00:00Z"', 2],
  [`${enterpriseUrn}:department pr`, 1],
  [`userName eq "'; drop table sync.scim_user; --"`, 0],
  [String.raw`userName eq "CORP\bo"`, 1],
  [String.raw`userName eq "CORP\\bo"`, 1],
  [String.raw`userName sw "CORP\\b"`, 1],
  [String.raw`userName co "P\b"`, 1],
  [String.raw`userName ne "CORP\\bo"`, 1],
  [String.raw`userName eq "\u00611"`, 1],
  [String.raw`userName sw "CORP\\" and active eq "False"`, 1],
  [String.raw`userName eq "\u0000" or userName eq "\ud800" or userName eq "0"`, 0],
])('users are found by %s', async (filter, found) => {
  const principal = admin()
  await create(principal, {
    userName: 'a1',
    emails: [
      { value: 'a@x.example', type: 'work' },
      { value: 'a2@x.example', type: 'other' },
    ],
    name: { familyName: 'Lund' },
    [enterpriseUrn]: { manager: 'm-1' },
  })
  await create(principal, {
    userName: String.raw`CORP\bo`,
    externalId: 'e2',
    active: false,
    emails: [{ value: 'b@y.example', type: 'home' }],
    name: { familyName: 'Moe' },
    [enterpriseUrn]: { department: 'Risk' },
  })
  const answer = await scim(principal, 'GET', `/Users?filter=${encodeURIComponent(filter)}`)
  expect([answer.status, answer.json]).toMatchObject([200, { totalResults: found }])
})

test('of two providers who create the same user at once, one gets a conflict, and the person matches the stored user', async () => {
  const principal = admin()
  const answers = await Promise.all(
    ['One', 'Two', 'Three'].map(async (displayName) =>
      scim(principal, 'POST', '/Users', { userName: 'same', displayName }),
    ),
  )
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409])
  const winner = answers.find(({ status }) => status === 201)
  const { displayName } = z.object({ displayName: z.string() }).parse(winner?.json)
  expect(await people(principal.tenantId)).toMatchObject([{ external_id: 'same', name: displayName }])
})

test('concurrent changes of one user are all stored', async () => {
  const principal = admin()
  const { id } = await create(principal)
  const values = { title: 'T', displayName: 'D', nickName: 'N' }
  const statuses = await Promise.all(
    Object.entries(values).map(
      async ([path, value]) =>
        (await scim(principal, 'PATCH', `/Users/${id}`, patch({ op: 'add', path, value }))).status,
    ),
  )
  expect(statuses).toEqual([200, 200, 200])
  expect((await scim(principal, 'GET', `/Users/${id}`)).json).toMatchObject(values)
  expect(await people(principal.tenantId)).toMatchObject([{ name: 'D', title: 'T' }])
})

const at = (department: string, manager: string) => ({ [enterpriseUrn]: { department, manager } })

test('the manager whom most users of a unit name is its head, under the manager’s current name', async () => {
  const principal = admin()
  const heads = async () => {
    const rows = await world.rows('select name, head from universe.node where tenant_id = $1', [principal.tenantId])
    return Object.fromEntries(rows.map(({ name, head }) => [name, head]))
  }
  const change = async (id: string, ...operations: object[]) => {
    const answer = await scim(principal, 'PATCH', `/Users/${id}`, patch(...operations))
    expect([answer.status, answer.text]).toEqual([200, expect.anything()])
  }
  const first = await create(principal, { displayName: 'Mia Falk', emails: [{ value: 'mia@x.example' }] })
  const other = await create(principal, { displayName: 'Nils Berg', ...at('Risk', 'nobody') })
  expect(await heads()).toEqual({ Risk: null })
  const one = await create(principal, at('Risk', first.id))
  expect(await heads()).toEqual({ Risk: { email: 'mia@x.example', name: 'Mia Falk' } })
  const two = await create(principal, at('Risk', 'e-7'))
  await create(principal, at('Risk', 'e-7'))
  expect(await heads()).toMatchObject({ Risk: { name: 'Mia Falk' } })
  await change(other.id, { op: 'add', path: 'externalId', value: 'e-7' })
  expect(await heads()).toEqual({ Risk: { name: 'Nils Berg' } })
  await change(two.id, { op: 'replace', path: `${enterpriseUrn}:manager`, value: first.id })
  await change(first.id, { op: 'replace', path: 'displayName', value: 'Mia Falk-Orr' })
  expect(await heads()).toEqual({ Risk: { email: 'mia@x.example', name: 'Mia Falk-Orr' } })
  await change(first.id, { op: 'replace', path: 'active', value: 'False' })
  expect(await heads()).toEqual({ Risk: { name: 'Nils Berg' } })
  await change(first.id, { op: 'replace', path: 'active', value: 'True' })
  await change(one.id, { op: 'replace', path: `${enterpriseUrn}:department`, value: 'Audit' })
  expect(await heads()).toMatchObject({ Audit: { name: 'Mia Falk-Orr' } })
})

test('while the universe is unavailable nothing is stored, and the same request succeeds later', async () => {
  const principal = admin()
  const lonely = await world.startSync('http://127.0.0.1:9', { POSTERN_SYNC_WORKERS: '0' })
  try {
    const body = Buffer.from(JSON.stringify({ userName: 'late' }))
    const headers = { 'content-type': 'application/scim+json' }
    const answer = await world.syncCaller(lonely.url).call(principal, 'POST', '/scim/v2/Users', { body, headers })
    expect(errorOf(answer)).toEqual([503, undefined, expect.anything()])
  } finally {
    await lonely.close()
  }
  expect((await scim(principal, 'GET', '/Users')).json).toMatchObject({ totalResults: 0 })
  await create(principal, { userName: 'late' })
  expect(await people(principal.tenantId)).toMatchObject([{ external_id: 'late' }])
})

test('the service describes what it supports', async () => {
  const principal = admin()
  const config = await scim(principal, 'GET', '/ServiceProviderConfig')
  expect(config.json).toMatchObject({
    patch: { supported: true },
    bulk: { supported: false },
    filter: { maxResults: 200 },
  })
  const list = z.object({ Resources: z.array(z.looseObject({ id: z.string() })) })
  for (const name of ['Schemas', 'ResourceTypes']) {
    const { Resources } = list.parse((await scim(principal, 'GET', `/${name}`)).json)
    for (const each of Resources) expect((await scim(principal, 'GET', `/${name}/${each.id}`)).json).toEqual(each)
    expect((await scim(principal, 'GET', `/${name}/none`)).status).toBe(404)
  }
})

describe('names are case-insensitive (RFC 7643 §2.1):', () => {
  const urn = enterpriseUrn.toUpperCase()
  const shouted = {
    USERNAME: 'ada',
    ExternalId: 'e-1',
    Active: 'True',
    Name: { GivenName: 'Ada', familyname: 'Lund' },
    Emails: [{ Value: 'ada@x.example', Type: 'work', PRIMARY: true }],
    TITLE: 'Auditor',
    [urn]: { Department: 'Risk', Manager: { VALUE: 'm-1' } },
  }

  test('a user who has left is not active, whatever else the change says', async () => {
    const principal = admin()
    const { id } = resource.parse((await scim(principal, 'POST', '/Users', shouted)).json)
    const person = { external_id: 'e-1', name: 'Ada Lund', email: 'ada@x.example', title: 'Auditor', active: true }
    expect(await people(principal.tenantId)).toEqual([person])
    expect((await scim(principal, 'GET', `/Users/${id}`)).json).toMatchObject({
      userName: 'ada',
      emails: [{ value: 'ada@x.example', type: 'work', primary: true }],
      [enterpriseUrn]: { department: 'Risk', manager: { value: 'm-1' } },
    })
    const gone = { userName: 'ada', EXTERNALID: 'e-1', DisplayName: 'Ada Falk', Active: 'False' }
    expect((await scim(principal, 'PUT', `/Users/${id}`, gone)).status).toBe(200)
    expect(await people(principal.tenantId)).toMatchObject([{ name: 'Ada Falk', active: false }])
  })

  test('in groups, in changes and within the values of changes', async () => {
    const principal = admin()
    const { id } = await create(principal, { name: { givenName: 'Ada', familyName: 'Lund' } })
    const made = await scim(principal, 'POST', '/Groups', { DISPLAYNAME: 'G', Members: [{ VALUE: id }] })
    expect([made.status, made.json]).toMatchObject([201, { displayName: 'G', members: [{ value: id }] }])
    const operations = [
      { Op: 'Replace', PATH: 'name', Value: { GivenName: 'Mia' } },
      { op: 'add', path: 'emails', value: [{ Value: 'mia@x.example', Type: 'work' }] },
    ]
    const body = { SCHEMAS: patch().schemas, operations }
    expect((await scim(principal, 'PATCH', `/Users/${id}`, body)).status).toBe(200)
    expect(await people(principal.tenantId)).toMatchObject([{ name: 'Mia Lund', email: 'mia@x.example' }])
  })

  test('a patch without schemas is accepted, as a new user is, and one with others is rejected', async () => {
    const principal = admin()
    const { id } = await create(principal, { title: 'Auditor' })
    const { Operations } = patch({ op: 'replace', path: 'title', value: 'Lead' })
    const other = await scim(principal, 'PATCH', `/Users/${id}`, { schemas: [urn], Operations })
    expect(errorOf(other)).toEqual([400, expect.anything(), expect.stringMatching(/must contain/)])
    expect((await scim(principal, 'PATCH', `/Users/${id}`, { Operations })).status).toBe(200)
    expect(await people(principal.tenantId)).toMatchObject([{ title: 'Lead' }])
  })

  test('a member that occurs twice, in different case, is rejected', async () => {
    const principal = admin()
    const { id, meta, userName } = await create(principal, { active: true })
    const twice = [400, 'invalidSyntax', expect.stringMatching(/must occur once/)]
    for (const more of [
      { active: true, Active: false },
      { userName, name: { givenName: 'A', GivenName: 'B' } },
      { userName, emails: [{ value: 'a@x.example', VALUE: 'b@x.example' }] },
      { userName, [enterpriseUrn]: {}, [urn]: {} },
    ]) {
      expect(errorOf(await scim(principal, 'PUT', `/Users/${id}`, { userName, ...more }))).toEqual(twice)
    }
    for (const operation of [
      { op: 'replace', value: { active: true, Active: false } },
      { op: 'replace', path: 'name', value: { givenName: 'A', GivenName: 'B' } },
    ]) {
      expect(errorOf(await scim(principal, 'PATCH', `/Users/${id}`, patch(operation)))).toEqual(twice)
    }
    expect(errorOf(await scim(principal, 'POST', '/Groups', { displayName: 'G', DisplayName: 'H' }))).toEqual(twice)
    expect((await scim(principal, 'GET', `/Users/${id}`)).headers['etag']).toBe(meta.version)
  })
})

test('a list of long users has shorter pages and is complete', async () => {
  const tenant = admin()
  await world.rows(
    `insert into sync.scim_user (tenant_id, id, user_name, person_key, active, content)
    select $1, gen_random_uuid(), 'u' || n, 'u' || n, true,
      jsonb_build_object('userName', 'u' || n, 'emails', (
        select jsonb_agg(jsonb_build_object('type', 'work', 'value', repeat('x', 20000))) from generate_series(1, 20)))
    from generate_series(1, 60) as n`,
    [tenant.tenantId],
  )
  const listed = z.object({ totalResults: z.number(), itemsPerPage: z.number(), Resources: z.array(resource) })
  const seen = new Set<string>()
  let pages = 0
  for (let start = 1; start <= 60; pages += 1) {
    const page = listed.parse((await scim(tenant, 'GET', `/Users?count=200&startIndex=${start}`)).json)
    expect(page).toMatchObject({ totalResults: 60, itemsPerPage: page.Resources.length })
    for (const { id } of page.Resources) seen.add(id)
    start += page.itemsPerPage
  }
  expect([pages > 1, seen.size]).toEqual([true, 60])
})

test('a list of large groups has shorter pages and is complete', async () => {
  const tenant = admin()
  await world.rows(
    `with person as (
      insert into sync.scim_user (tenant_id, id, user_name, person_key, active, content)
      select $1, gen_random_uuid(), 'u' || n, 'u' || n, true, '{}' from generate_series(1, 20000) as n
      returning id
    ), made as (
      insert into sync.scim_group (tenant_id, id, display_name)
      select $1, gen_random_uuid(), 'All ' || n from generate_series(1, 3) as n
      returning id
    )
    insert into sync.scim_member (tenant_id, group_id, member_id)
    select $1, made.id, person.id from made cross join person`,
    [tenant.tenantId],
  )
  // As a table looks that was last analyzed when nothing in it was committed yet.
  for (const table of ['scim_user', 'scim_member', 'scim_group']) {
    await world.rows(
      `select pg_restore_relation_stats(
        'schemaname', 'sync', 'relname', $1::text, 'relpages', 100::integer, 'reltuples', 0::real)`,
      [table],
    )
  }
  const listed = z.object({
    totalResults: z.number(),
    itemsPerPage: z.number(),
    Resources: z.array(z.object({ displayName: z.string(), members: z.array(z.unknown()).optional() })),
  })
  const first = listed.parse((await scim(tenant, 'GET', '/Groups?count=200')).json)
  const second = listed.parse(
    (await scim(tenant, 'GET', `/Groups?count=200&startIndex=${first.itemsPerPage + 1}`)).json,
  )
  expect([first.totalResults, first.itemsPerPage, second.itemsPerPage]).toEqual([3, 2, 1])
  const groups = [...first.Resources, ...second.Resources]
  expect(groups.map(({ displayName }) => displayName).toSorted()).toEqual(['All 1', 'All 2', 'All 3'])
  expect(groups.map(({ members }) => members?.length)).toEqual([20_000, 20_000, 20_000])
  const brief = listed.parse((await scim(tenant, 'GET', '/Groups?count=200&excludedAttributes=members')).json)
  expect(brief.itemsPerPage).toBe(3)
})

async function readEndedUsers(): Promise<number> {
  const text = await (await fetch(`${sync.url}/internal/metrics`)).text()
  return Number(/^postern_scim_users_ended_total(?:\{.*\})? (\d+)$/m.exec(text)?.[1])
}

test('a metric counts active users whom the directory deactivates or deletes, once each', async () => {
  const before = await readEndedUsers()
  const principal = admin()
  const [one, other] = [await create(principal), await create(principal)]
  const off = patch({ op: 'replace', path: 'active', value: false })
  for (let times = 0; times < 2; times += 1) {
    expect((await scim(principal, 'PATCH', `/Users/${one.id}`, off)).status).toBe(200)
  }
  for (const { id } of [one, other]) expect((await scim(principal, 'DELETE', `/Users/${id}`)).status).toBe(204)
  expect((await readEndedUsers()) - before).toBe(2)
})
