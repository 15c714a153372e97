import { connectorSchema, problemSchema } from '@postern/contracts'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { openTenantDb } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { admin, makeWorld, push, row } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: ReturnType<typeof world.syncCaller>
beforeAll(async () => {
  world = await makeWorld()
  // No universe: a push makes its connector and its run all the same.
  sync = await world.startSync('http://127.0.0.1:1')
  caller = world.syncCaller(sync.url)
})
afterAll(async () => {
  await sync.close()
  await world.close()
})

const list = async (principal: ReturnType<typeof admin>, query = '') =>
  await caller.call(principal, 'GET', `/api/v1/connectors${query}`)
const connectorsIn = (answer: { json: unknown }) => z.array(connectorSchema).parse(answer.json)

async function makeConnectors(tenantId: string, ...keys: string[]): Promise<void> {
  for (const key of keys) {
    await world.rows(
      `insert into sync.connector (tenant_id, key, name, type, dataset) values ($1, $2, 'A connector', 'ldap', 'people')`,
      [tenantId, key],
    )
  }
}

describe('the list of connectors is refused', () => {
  test('without the signature of the gateway', async () => {
    expect((await fetch(`${sync.url}/api/v1/connectors`)).status).toBe(401)
  })

  test.each(['read:universe', 'read:findings', 'write:findings', 'write:evidence'])(
    'to the scope %s',
    async (scope) => {
      const answer = await list({ ...admin(), scopes: [scope] })
      expect(answer.status).toBe(403)
      expect(problemSchema.parse(answer.json).required_scope).toBe('admin:sync')
    },
  )

  test.each(['?limit=0', '?limit=1001', '?cursor=x', '?sort=name', '?limit=1&limit=2'])('with %s', async (query) => {
    const answer = await list(admin(), query)
    expect([answer.status, problemSchema.parse(answer.json).code]).toEqual([400, 'bad_request'])
  })

  test('with the cursor of another tenant', async () => {
    const [one, other] = [admin(), admin()]
    for (const { tenantId } of [one, other]) await makeConnectors(tenantId, 'a', 'b')
    const next = nextTarget(await list(one, '?limit=1'))
    expect((await caller.call(other, 'GET', next)).status).toBe(400)
    expect((await caller.call(one, 'GET', next)).status).toBe(200)
  })
})

describe('the list of connectors', () => {
  test('is an empty array before the first push, and holds `inline` after it', async () => {
    const principal = admin()
    const before = await list(principal)
    expect([before.status, before.json]).toEqual([200, []])
    await push(caller, principal, [row()])
    await push(caller, principal, [row()])
    const [inline, ...others] = connectorsIn(await list(principal))
    expect(others).toEqual([])
    expect(inline).toMatchObject({
      key: 'inline',
      type: 'inline_json',
      dataset: 'auditable_entities',
      state: 'active',
      version: 1,
    })
    expect(inline?.last_run_at).not.toBeNull()
  })

  test('holds one `inline` when the first pushes arrive together', async () => {
    const principal = admin()
    await Promise.all(Array.from({ length: 8 }, async () => await push(caller, principal, [row()])))
    expect(connectorsIn(await list(principal))).toHaveLength(1)
    const runs = await world.rows('select from sync.run where tenant_id = $1', [principal.tenantId])
    expect(runs).toHaveLength(8)
  })

  test('comes by key, in pages that together hold each connector once', async () => {
    const principal = admin()
    await makeConnectors(principal.tenantId, 'd', 'a', 'c', 'e', 'b')
    const keys: string[] = []
    let target = '/api/v1/connectors?limit=2&count=true'
    for (let pages = 0; target !== '' && pages < 10; pages += 1) {
      const answer = await caller.call(principal, 'GET', target)
      if (pages === 0) expect(answer.headers['x-total-count']).toBe('5')
      keys.push(...connectorsIn(answer).map(({ key }) => key))
      target = nextTarget(answer)
    }
    expect(keys).toEqual(['a', 'b', 'c', 'd', 'e'])
  })

  test('can be filtered by key', async () => {
    const principal = admin()
    await makeConnectors(principal.tenantId, 'a', 'b')
    expect(connectorsIn(await list(principal, '?key=b')).map(({ key }) => key)).toEqual(['b'])
    expect(connectorsIn(await list(principal, '?key=zzz'))).toEqual([])
  })

  test('holds no connector of another tenant', async () => {
    const [one, other] = [admin(), admin()]
    await makeConnectors(one.tenantId, 'secret-erp')
    expect((await list(other)).json).toEqual([])
    expect(connectorsIn(await list(one))).toHaveLength(1)
  })
})

describe('the database', () => {
  test('lets a tenant see and change only its own connectors and runs', async () => {
    const [one, other] = [admin(), admin()]
    for (const principal of [one, other]) await push(caller, principal, [row()])
    const db = openTenantDb({
      connectionString: world.database.url('sync'),
      maxConnections: 1,
      connectTimeoutMs: 60_000,
      queryTimeoutMs: 60_000,
      applicationName: 'sync-test',
    })
    const assertion = mintAssertion(parseKeyRing(world.database.assertionKeys), one.tenantId, Date.now())
    const execute = async (text: string, values: readonly unknown[]) =>
      await db.write({ assertion }, async (tx) => tx.execute({ text, values }))
    try {
      for (const [table, column] of [
        ['connector', 'name'],
        ['run', 'status'],
      ] as const) {
        const seen = await db.read({ assertion }, async (tx) =>
          tx.query({ text: `select distinct tenant_id from sync.${table}`, values: [] }),
        )
        expect(seen).toEqual([{ tenant_id: one.tenantId }])
        const touch = `update sync.${table} set ${column} = ${column} where tenant_id = $1`
        expect(await execute(touch, [other.tenantId])).toBe(0)
        expect(await execute(touch, [one.tenantId])).toBe(1)
        await expect(execute(`delete from sync.${table} where tenant_id = $1`, [one.tenantId])).rejects.toMatchObject({
          code: '42501',
        })
      }
      const insert =
        "insert into sync.connector (tenant_id, key, name, type, dataset) values ($1, 'x', 'x', 'ldap', 'people')"
      await expect(execute(insert, [other.tenantId])).rejects.toMatchObject({ code: '42501' })
      expect(await execute(insert, [one.tenantId])).toBe(1)
    } finally {
      await db.close()
    }
  })
})

/** Returns the next link; empty at the end. */
function nextTarget(answer: { headers: Readonly<Record<string, string>> }): string {
  return /^<(?<target>[^>]+)>; rel="next"$/.exec(answer.headers['link'] ?? '')?.groups?.['target'] ?? ''
}
