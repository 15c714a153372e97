import { createServer, request } from 'node:http'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { internalPaths } from '@postern/contracts/internal'
import { enterpriseUrn } from '@postern/contracts'
import type { CallAnswer, Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { patch, resource } from './scim-support.ts'
import { admin, makeWorld } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let close: () => Promise<void>
let url: string
/** What happens before the universe hears of people: `said` is all of the push. */
let before: (said: string) => Promise<unknown> = async () => undefined

/** What else happens while the first push of people that says this is on its way. */
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
  const way = createServer((asked, answer) => {
    void buffer(asked).then(async (body) => {
      if (asked.url === internalPaths.pushPeople) await before(body.toString())
      const { method, headers } = asked
      const passed = request(`${universe.url}${asked.url}`, { method, headers }, (heard) => {
        answer.writeHead(heard.statusCode ?? 500, heard.headers)
        heard.pipe(answer)
      })
      passed.on('error', () => answer.destroy())
      passed.end(body)
    })
  })
  way.listen(0, '127.0.0.1')
  await once(way, 'listening')
  const address = way.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const sync = await world.startSync(`http://127.0.0.1:${port}`, { POSTERN_SYNC_WORKERS: '0' })
  ;({ url } = sync)
  close = async () => {
    await sync.close()
    way.close()
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

async function person({ tenantId }: Principal): Promise<unknown> {
  return await world.rows('select title, active from universe.person where tenant_id = $1', [tenantId])
}

async function unit({ tenantId }: Principal): Promise<unknown> {
  return await world.rows('select name, status, head from universe.node where tenant_id = $1', [tenantId])
}

test('who was deleted while somebody else changed him is not active', async () => {
  const tenant = admin()
  const { id } = await create(tenant, 'ada')
  meanwhile('"X"', async () => expect((await scim(tenant, 'DELETE', `/Users/${id}`)).status).toBe(204))
  expect(await change(tenant, id, { title: 'X' })).toBe(404)
  expect(await person(tenant)).toMatchObject([{ active: false }])
})

test('who was deactivated by a change that held another one is not active', async () => {
  const tenant = admin()
  const { id } = await create(tenant, 'ada')
  meanwhile('"X"', async () => expect(await change(tenant, id, { title: 'X', active: false })).toBe(200))
  expect(await change(tenant, id, { title: 'X' })).toBe(200)
  expect(await person(tenant)).toEqual([{ title: 'X', active: false }])
})

test('a change of what somebody else has changed meanwhile is refused, and the person is as that one said', async () => {
  const tenant = admin()
  const { id, meta } = await create(tenant, 'ada')
  meanwhile('"Mine"', async () => expect(await change(tenant, id, { title: 'Theirs' })).toBe(200))
  expect(await change(tenant, id, { title: 'Mine' }, { 'if-match': meta.version })).toBe(412)
  expect(await person(tenant)).toEqual([{ title: 'Theirs', active: true }])
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
