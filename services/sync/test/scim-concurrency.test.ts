import { internalPaths } from '@postern/contracts/internal'
import { enterpriseUrn } from '@postern/contracts'
import { type CallAnswer, type Principal, startTestProxy } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { patch, resource } from './scim-support.ts'
import { admin, makeWorld } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let close: () => Promise<void>
let url: string
const pushes: ReadonlySet<unknown> = new Set([internalPaths.pushPeople, internalPaths.pushOrgStructures])
/** Runs before the universe receives people or nodes; `said` is the push. */
let before: (said: string) => Promise<unknown> = async () => undefined
/** Replaces the answer of the universe on a path, after or instead of applying the push. */
let instead: { readonly path: string; readonly status: number; readonly isTaken: boolean } | undefined

/** Runs during the first push that contains the words. */
function meanwhile(words: string, what: () => Promise<unknown>): void {
  before = async (said) => {
    if (!said.includes(words)) return
    before = async () => undefined
    await what()
  }
}

beforeAll(async () => {
  world = await makeWorld()
  const universe = await world.spawnUniverse()
  const proxy = await startTestProxy(universe.url, async ({ path, body }, forward) => {
    if (pushes.has(path)) await before(body.toString())
    const replaced = instead?.path === path ? instead : undefined
    if (replaced !== undefined) instead = undefined
    if (replaced?.isTaken === false) return { status: replaced.status }
    const answer = await forward()
    return { ...answer, status: replaced?.status ?? answer.status }
  })
  const sync = await world.startSync(proxy.url, { POSTERN_SYNC_WORKERS: '0' })
  ;({ url } = sync)
  close = async () => {
    await sync.close()
    await proxy.close()
    await universe.stop()
    await world.close()
  }
})
afterAll(async () => await close())

async function scim(tenant: Principal, method: string, path: string, body?: unknown, more = {}): Promise<CallAnswer> {
  const sent = body === undefined ? {} : { body: Buffer.from(JSON.stringify(body)) }
  const type = body === undefined ? {} : { 'content-type': 'application/scim+json' }
  return await world.syncCaller(url).call(tenant, method, `/scim/v2${path}`, { ...sent, headers: { ...type, ...more } })
}

async function create(tenant: Principal, userName: string, fields = {}) {
  const answer = await scim(tenant, 'POST', '/Users', { userName, ...fields })
  expect([answer.status, answer.text]).toEqual([201, expect.anything()])
  return resource.parse(answer.json)
}

async function change(tenant: Principal, id: string, values: Record<string, unknown>, headers = {}): Promise<number> {
  const operations = Object.entries(values).map(([path, value]) => ({ op: 'replace', path, value }))
  return (await scim(tenant, 'PATCH', `/Users/${id}`, patch(...operations), headers)).status
}

/** As another source does. */
async function pushPerson(tenant: Principal, row: unknown): Promise<void> {
  const push = await world.syncCaller(url).call(tenant, 'POST', '/api/v1/sync/people', { body: [row] })
  expect(push.status).toBe(200)
}

async function person({ tenantId }: Principal): Promise<unknown> {
  return await world.rows('select title, active from universe.person where tenant_id = $1', [tenantId])
}

async function unit({ tenantId }: Principal): Promise<unknown> {
  return await world.rows('select name, status, head from universe.node where tenant_id = $1', [tenantId])
}

test('a user who was deleted during another change is not active', async () => {
  const tenant = admin()
  const { id } = await create(tenant, 'ada')
  meanwhile('"X"', async () => expect((await scim(tenant, 'DELETE', `/Users/${id}`)).status).toBe(204))
  expect(await change(tenant, id, { title: 'X' })).toBe(404)
  expect(await person(tenant)).toMatchObject([{ active: false }])
})

test('a user who was deactivated by a change that overtook another one is not active', async () => {
  const tenant = admin()
  const { id } = await create(tenant, 'ada')
  meanwhile('"X"', async () => expect(await change(tenant, id, { title: 'X', active: false })).toBe(200))
  expect(await change(tenant, id, { title: 'X' })).toBe(200)
  expect(await person(tenant)).toEqual([{ title: 'X', active: false }])
})

test('a change that was overtaken is rejected, and the person has the other change', async () => {
  const tenant = admin()
  const { id, meta } = await create(tenant, 'ada')
  meanwhile('"Mine"', async () => expect(await change(tenant, id, { title: 'Theirs' })).toBe(200))
  expect(await change(tenant, id, { title: 'Mine' }, { 'if-match': meta.version })).toBe(412)
  expect(await person(tenant)).toEqual([{ title: 'Theirs', active: true }])
})

test('a stored change is pushed again after a rejected one overtook it', async () => {
  const tenant = admin()
  const { id, meta } = await create(tenant, 'ada')
  const refused = Promise.withResolvers<void>()
  let leaving: Promise<number> | undefined
  meanwhile('"X"', async () => {
    expect(await change(tenant, id, { title: 'X' })).toBe(200)
    const told = Promise.withResolvers<void>()
    meanwhile('"nodes"', async () => {
      told.resolve()
      await refused.promise
    })
    leaving = change(tenant, id, { title: 'Y', [`${enterpriseUrn}:department`]: 'Risk' })
    await told.promise
  })
  expect(await change(tenant, id, { title: 'X' }, { 'if-match': meta.version })).toBe(412)
  refused.resolve()
  expect(await leaving).toBe(200)
  expect(await person(tenant)).toEqual([{ title: 'Y', active: true }])
})

const risk = { [enterpriseUrn]: { department: 'Risk' } }

test('a unit that its last two users leave at once is not active', async () => {
  const tenant = admin()
  const [ada, bo] = [await create(tenant, 'ada', risk), await create(tenant, 'bo', risk)]
  meanwhile('"ada"', async () => expect(await change(tenant, bo.id, { active: false })).toBe(200))
  expect(await change(tenant, ada.id, { active: false })).toBe(200)
  expect(await unit(tenant)).toMatchObject([{ name: 'Risk', status: 'inactive' }])
})

test('a unit that its last user leaves while another comes is active', async () => {
  const tenant = admin()
  const ada = await create(tenant, 'ada', risk)
  meanwhile('"ada"', async () => await create(tenant, 'bo', risk))
  expect(await change(tenant, ada.id, { active: false })).toBe(200)
  expect(await unit(tenant)).toMatchObject([{ name: 'Risk', status: 'active' }])
})

describe('a write that is not stored', () => {
  const refusing = { path: internalPaths.pushOrgStructures, status: 422, isTaken: false }
  const away = { path: internalPaths.pushOrgStructures, status: 503, isTaken: true }

  test.each([
    ['whose unit the universe refuses', refusing, 400],
    ['of which nobody knows whether the universe took it in', away, 503],
  ])('%s leaves the person unchanged', async (_what, lie, status) => {
    const tenant = admin()
    const { id } = await create(tenant, 'ada', { title: 'Auditor' })
    instead = lie
    expect(await change(tenant, id, { title: 'X', [`${enterpriseUrn}:department`]: 'Risk' })).toBe(status)
    expect(instead).toBeUndefined()
    expect(await person(tenant)).toEqual([{ title: 'Auditor', active: true }])
  })

  test('creates no person if the universe has not applied it', async () => {
    const tenant = admin()
    instead = { path: internalPaths.pushPeople, status: 503, isTaken: false }
    expect((await scim(tenant, 'POST', '/Users', { userName: 'ada' })).status).toBe(503)
    expect(await person(tenant)).toEqual([])
  })

  test('creates no person, and leaves the person of another source unchanged', async () => {
    const tenant = admin()
    const known = [{ external_id: 'ada', name: 'Ada Lund', title: 'Auditor', active: true }]
    await pushPerson(tenant, known[0])
    for (const userName of ['ada', 'bo']) {
      instead = refusing
      const fields = { userName, title: 'X', ...risk }
      expect((await scim(tenant, 'POST', '/Users', fields)).status).toBe(400)
    }
    const people =
      'select external_id, name, title, active from universe.person where tenant_id = $1 order by external_id'
    expect(await world.rows(people, [tenant.tenantId])).toEqual(known)
  })

  test.each([
    ['was not taken in', { ...away, isTaken: false }, 503, 1],
    ['was refused for its unit', refusing, 400, 1],
    ['may have been taken in', away, 503, 2],
  ])(
    'does not block its address if it %s, also for a user with a former name of another one',
    async (_what, lie, status, people) => {
      const tenant = admin()
      const { id } = await create(tenant, 'ann')
      expect(await change(tenant, id, { userName: 'ann.b' })).toBe(200)
      const emails = [{ value: 'ann@x.example' }]
      instead = lie
      expect((await scim(tenant, 'POST', '/Users', { userName: 'ann', emails, ...risk })).status).toBe(status)
      expect(await person(tenant)).toHaveLength(people)
      await create(tenant, 'ann', { emails, ...risk })
    },
  )

  test.each([
    ['was changed', 'Risk', [{ external_id: 'ada', name: 'Ada', title: 'Auditor' }], refusing, 400],
    ['was made', 'X', [], { ...away, isTaken: false }, 503],
  ])('leaves a person who %s by another source meanwhile unchanged', async (_what, words, known, lie, status) => {
    const tenant = admin()
    for (const row of known) await pushPerson(tenant, row)
    meanwhile(`"${words}"`, async () => {
      await pushPerson(tenant, { external_id: 'ada', name: 'Ada', title: 'Chief', active: true })
      instead = lie
    })
    expect((await scim(tenant, 'POST', '/Users', { userName: 'ada', title: 'X', ...risk })).status).toBe(status)
    expect(await person(tenant)).toEqual([{ title: 'Chief', active: true }])
  })

  test('has no effect if the universe has rejected the person', async () => {
    const tenant = admin()
    const emails = [{ value: 'ada@x.example' }]
    await create(tenant, 'ada', { emails })
    const { id, meta } = await create(tenant, 'bo')
    const runs = async () =>
      await world.rows('select status from sync.run where tenant_id = $1 order by started_at', [tenant.tenantId])
    const earlier = await runs()
    expect(await change(tenant, id, { emails, [`${enterpriseUrn}:department`]: 'Risk' })).toBe(409)
    expect(await runs()).toEqual([...earlier, { status: 'failed' }])
    expect(await change(tenant, id, { title: 'X' }, { 'if-match': meta.version })).toBe(200)
  })
})

test('a stored write succeeds even if the other users of its unit cannot be read', async () => {
  const tenant = admin()
  await create(tenant, 'ada', risk)
  // Writes read in writable transactions; only the later check is read-only.
  await world.rows(`create function sync.refuse_looks_for_test() returns boolean language plpgsql as $$
    begin
      if current_setting('transaction_read_only') = 'on' then
        raise exception 'no look now';
      end if;
      return true;
    end
    $$`)
  await world.rows(
    'create policy no_looks_for_test on sync.scim_user as restrictive using (sync.refuse_looks_for_test())',
  )
  try {
    await create(tenant, 'bo', risk)
  } finally {
    await world.rows('drop policy no_looks_for_test on sync.scim_user')
  }
  expect(await unit(tenant)).toMatchObject([{ name: 'Risk', status: 'active' }])
})
