import { randomUUID } from 'node:crypto'
import { enterpriseUrn, patchUrn, scimErrorSchema } from '@postern/contracts'
import type { CallAnswer, Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { admin, makeWorld } from './support.ts'

type World = Awaited<ReturnType<typeof makeWorld>>
let world: World
let universe: Awaited<ReturnType<World['spawnUniverse']>>
let sync: Awaited<ReturnType<World['startSync']>>

beforeAll(async () => {
  world = await makeWorld()
  universe = await world.spawnUniverse()
  sync = await world.startSync(universe.url, { POSTERN_SYNC_WORKERS: '0' })
})

afterAll(async () => {
  await sync.close()
  await universe.stop()
  await world.close()
})

const resource = z.looseObject({ id: z.string(), meta: z.object({ version: z.string() }) })

async function scim(
  principal: Principal,
  method: string,
  path: string,
  body?: unknown,
  headers = {},
): Promise<CallAnswer> {
  const sent = body === undefined ? {} : { body: Buffer.from(JSON.stringify(body)) }
  return await world.syncCaller(sync.url).call(principal, method, `/scim/v2${path}`, {
    ...sent,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/scim+json; charset=utf-8' }), ...headers },
  })
}

async function create(principal: Principal, fields: Record<string, unknown> = {}) {
  const userName = `${randomUUID()}@x.example`
  const answer = await scim(principal, 'POST', '/Users', { userName, ...fields })
  expect([answer.status, answer.text]).toEqual([201, expect.anything()])
  return { userName, ...resource.parse(answer.json) }
}

const patch = (...Operations: unknown[]) => ({ schemas: [patchUrn], Operations })

/** What the universe has, past row security. */
async function people(tenantId: string): Promise<Record<string, unknown>[]> {
  return await world.rows(
    'select external_id, name, email, title, active from universe.person where tenant_id = $1 order by external_id',
    [tenantId],
  )
}

async function nodes(tenantId: string): Promise<unknown[]> {
  const rows = await world.rows(
    `select n.node_key, n.status from universe.node n
      join universe.hierarchy h on h.tenant_id = n.tenant_id and h.id = n.hierarchy_id
      where n.tenant_id = $1 and h.key = 'scim' order by n.node_key`,
    [tenantId],
  )
  return rows.map(({ node_key: key, status }) => [key, status])
}

/** All but the id of the request. */
function words({ text }: CallAnswer): string {
  return text.replaceAll(/Request [^ ]+\./g, '')
}

function errorOf(answer: CallAnswer): unknown {
  expect(answer.headers['content-type']).toBe('application/scim+json')
  const { status, scimType, detail } = scimErrorSchema.parse(answer.json)
  expect(status).toBe(String(answer.status))
  return [answer.status, scimType, detail]
}

describe('what is refused, is refused in the words of SCIM and changes nothing:', () => {
  test.each([
    ['a user without a userName', 'POST', '/Users', { active: true }, [400, 'invalidValue', 'userName']],
    [
      'a user whose address is none',
      'POST',
      '/Users',
      { userName: 'u', emails: [{ value: 'x' }] },
      [400, 'invalidValue', 'emails'],
    ],
    ['a filter that is none', 'GET', '/Users?filter=userName', undefined, [400, 'invalidFilter', 'filter']],
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
    ['the same without a path', { op: 'add', value: { 'constructor.prototype.polluted': 'x' } }, 'invalidPath'],
    ['the same in a filter', { op: 'add', path: 'emails[constructor eq "x"].value', value: 'x' }, 'invalidFilter'],
    ['a filter that is none', { op: 'replace', path: 'emails[type].value', value: 'x' }, 'invalidFilter'],
    ['an operation that there is not', { op: 'move', path: 'title', value: 'x' }, 'invalidValue'],
    ['a removal of the userName', { op: 'remove', path: 'userName' }, 'invalidValue'],
    ['a removal of nothing', { op: 'remove' }, 'noTarget'],
    ['a text that is no flag', { op: 'replace', path: 'active', value: 'perhaps' }, 'invalidValue'],
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

describe('as Microsoft Entra ID does it', () => {
  test('a user is looked for, made, changed, made inactive and deleted, and the person follows', async () => {
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
    // Nobody is left in the one, the other is new, the division stays.
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

  test('who is deleted and made anew is the same person; who gets the address of one who has left, is another', async () => {
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
  // Nothing of it is new: no version, no run.
  const runs = async () =>
    (await world.rows('select id from sync.run where tenant_id = $1', [principal.tenantId])).length
  const before = await runs()
  const again = await scim(principal, 'PUT', `/Users/${first?.id}`, whole)
  expect([again.headers['etag'], await runs()]).toEqual([put.headers['etag'], before])
})

test.each([
  ['userName eq "A1"', 1],
  ['userName sw "a" and active eq true', 1],
  ['not (active eq true)', 1],
  ['externalId eq "E2" or externalId eq "e2"', 1],
  ['emails[type eq "work" and value ew "x.example"]', 1],
  ['emails.value co "@"', 2],
  ['name.familyName ge "m"', 1],
  ['meta.lastModified gt "2020-01-01T00:00:00Z"', 2],
  [`${enterpriseUrn}:department pr`, 1],
  [`userName eq "'; drop table sync.scim_user; --"`, 0],
])('users are found by %s', async (filter, found) => {
  const principal = admin()
  await create(principal, {
    userName: 'a1',
    emails: [{ value: 'a@x.example', type: 'work' }],
    name: { familyName: 'Lund' },
  })
  await create(principal, {
    userName: 'a2',
    externalId: 'e2',
    active: false,
    emails: [{ value: 'b@y.example', type: 'home' }],
    name: { familyName: 'Moe' },
    [enterpriseUrn]: { department: 'Risk' },
  })
  const answer = await scim(principal, 'GET', `/Users?filter=${encodeURIComponent(filter)}`)
  expect([answer.status, answer.json]).toMatchObject([200, { totalResults: found }])
})

test('two providers who make the same user at once: one is told so, and the person is what is kept', async () => {
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

test('changes of one user at once are all kept', async () => {
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

test('while the universe is away nothing is kept, and the same request does it later', async () => {
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

test('the service says what of SCIM it does', async () => {
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
