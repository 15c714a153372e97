import { enterpriseUrn, patchUrn, searchUrn } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { create, patch, people, scim, sync, useOwnWorld, world } from './scim-support.ts'
import { admin } from './support.ts'

useOwnWorld()

const ada = { value: 'ada@x.example', type: 'work', primary: true }
const home = { value: 'ada@home.example', type: 'home' }
const place = { formatted: 'Quay 1', locality: 'Kiel' }

const read = async (principal: ReturnType<typeof admin>, id: string) =>
  (await scim(principal, 'GET', `/Users/${id}`)).json

describe('a list of values is accepted', () => {
  test.each([
    ['emails', ada, [ada]],
    ['emails', [null, ada, null], [ada]],
    ['emails', 'ada@x.example', [{ value: 'ada@x.example' }]],
    ['emails', ['ada@x.example', null, home], [{ value: 'ada@x.example' }, home]],
    ['EMAILS', { Value: 'ada@x.example' }, [{ value: 'ada@x.example' }]],
    ['phoneNumbers', { value: '+49 30 1', type: 'work' }, [{ value: '+49 30 1', type: 'work' }]],
    ['phoneNumbers', [null, '+49 30 1'], [{ value: '+49 30 1' }]],
    ['addresses', place, [place]],
    ['addresses', [place, null], [place]],
    ['addresses', 'Quay 1', [{ formatted: 'Quay 1' }]],
    ['emails', [null], undefined],
    ['emails', null, undefined],
  ])('as %s %j, in POST, PUT and PATCH', async (name, sent, kept) => {
    const principal = admin()
    const key = name === 'EMAILS' ? 'emails' : name
    const made = await create(principal, { [name]: sent })
    expect(await read(principal, made.id)).toHaveProperty('userName')
    expect(Reflect.get(Object(await read(principal, made.id)), key)).toEqual(kept)

    for (const [method, body] of [
      ['PUT', { userName: made.userName, [name]: sent }],
      ['PATCH', patch({ op: 'replace', path: name, value: sent })],
      ['PATCH', patch({ op: 'add', path: name, value: sent })],
      ['PATCH', patch({ op: 'replace', value: { [name]: sent } })],
    ] as const) {
      // Each begins without the attribute.
      await scim(principal, 'PUT', `/Users/${made.id}`, { userName: made.userName })
      const answer = await scim(principal, method, `/Users/${made.id}`, body)
      expect([method, answer.status, Reflect.get(Object(answer.json), key)]).toEqual([method, 200, kept])
    }
  })

  test('for the person in the universe too', async () => {
    const principal = admin()
    await create(principal, { emails: { value: 'Ada@X.example' } })
    expect(await people(principal.tenantId)).toMatchObject([{ email: 'ada@x.example' }])
  })

  test('as values to remove', async () => {
    const principal = admin()
    const { id } = await create(principal, { emails: [ada, home] })
    const removal = patch({ op: 'remove', path: 'emails', value: [null, { value: 'ADA@x.example' }] })
    expect((await scim(principal, 'PATCH', `/Users/${id}`, removal)).json).toMatchObject({ emails: [home] })
    const nothing = patch({ op: 'remove', path: 'emails', value: [null] })
    expect((await scim(principal, 'PATCH', `/Users/${id}`, nothing)).json).toMatchObject({ emails: [home] })
  })

  test('as members of a group', async () => {
    const principal = admin()
    const [one, two] = [await create(principal), await create(principal)]
    const members = async (method: string, path: string, body: object) => {
      const answer = await scim(principal, method, path, body)
      const ids = Object(answer.json).members?.map(({ value }: { value: string }) => value)
      return [answer.status, Object(answer.json).id, ids?.toSorted()]
    }
    const made = await members('POST', '/Groups', { displayName: 'A', members: { value: one.id } })
    const [, id] = made
    expect(made).toEqual([201, expect.anything(), [one.id]])
    const path = `/Groups/${id}`
    expect(await members('PUT', path, { displayName: 'A', members: [null, two.id] })).toEqual([200, id, [two.id]])
    const added = patch({ op: 'add', path: 'members', value: [null, one.id] })
    expect(await members('PATCH', path, added)).toEqual([200, id, [one.id, two.id].toSorted()])
    const removed = patch({ op: 'remove', path: 'members', value: { value: one.id } })
    expect(await members('PATCH', path, removed)).toEqual([200, id, [two.id]])
    const nobody = patch({ op: 'remove', path: 'members', value: [null] })
    expect(await members('PATCH', path, nobody)).toEqual([200, id, [two.id]])
    const replaced = patch({ op: 'replace', value: { members: one.id } })
    expect(await members('PATCH', path, replaced)).toEqual([200, id, [one.id]])
  })

  test('as schemas, operations and names of attributes', async () => {
    const principal = admin()
    const { id, userName } = await create(principal, { schemas: enterpriseUrn, title: 'T' })
    const body = { schemas: patchUrn, Operations: { op: 'replace', path: 'title', value: 'U' } }
    expect((await scim(principal, 'PATCH', `/Users/${id}`, body)).json).toMatchObject({ title: 'U' })
    const search = { schemas: searchUrn, attributes: 'userName', filter: 'title eq "U"' }
    const found = await scim(principal, 'POST', '/Users/.search', search)
    expect(found.json).toMatchObject({ Resources: [{ id, userName }] })
    expect(JSON.stringify(found.json)).not.toContain('title')
  })
})

test('an invalid value is still refused', async () => {
  for (const [name, sent] of [
    ['emails', 7],
    ['emails', [[ada]]],
    ['emails', [ada, 7]],
    ['phoneNumbers', true],
    ['addresses', [7]],
  ] as const) {
    const answer = await scim(admin(), 'POST', '/Users', { userName: 'a', [name]: sent })
    expect([name, answer.status]).toEqual([name, 400])
  }
  const { id } = await create(admin())
  expect((await scim(admin(), 'GET', `/Users/${id}`)).status).toBe(404)
})

test('a body behind a byte order mark is accepted', async () => {
  const principal = admin()
  const headers = { 'content-type': 'application/scim+json' }
  const body = Buffer.from(`\uFEFF${JSON.stringify({ userName: 'ada', title: 'T' })}`)
  const answer = await world.syncCaller(sync.url).call(principal, 'POST', '/scim/v2/Users', { body, headers })
  expect([answer.status, answer.json]).toMatchObject([201, { title: 'T' }])
})

test('a name of more than 255 characters is cut between two characters', async () => {
  const principal = admin()
  const [givenName, familyName] = ['a'.repeat(253), '🙂']
  await create(principal, { name: { givenName, familyName } })
  expect(await people(principal.tenantId)).toMatchObject([{ name: givenName }])
})
