import { randomUUID } from 'node:crypto'
import { patchUrn, scimErrorSchema } from '@postern/contracts'
import type { CallAnswer, Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect } from 'vitest'
import { z } from 'zod'
import { makeWorld } from './support.ts'

type World = Awaited<ReturnType<typeof makeWorld>>
export let world: World
export let sync: Awaited<ReturnType<World['startSync']>>

/** Each test file calls it, because modules are loaded once for many files. */
export function useOwnWorld(): void {
  let universe: Awaited<ReturnType<World['spawnUniverse']>>
  beforeAll(async () => {
    world = await makeWorld()
    universe = await world.spawnUniverse()
    sync = await world.startSync(universe.url, { POSTERN_SYNC_WORKERS: '0', POSTERN_API_URL: 'https://api.example' })
  })
  afterAll(async () => {
    await sync.close()
    await universe.stop()
    await world.close()
  })
}

export const resource = z.looseObject({ id: z.string(), meta: z.object({ version: z.string() }) })

export async function scim(
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

export async function create(principal: Principal, fields: Record<string, unknown> = {}) {
  const userName = `${randomUUID()}@x.example`
  const answer = await scim(principal, 'POST', '/Users', { userName, ...fields })
  expect([answer.status, answer.text]).toEqual([201, expect.anything()])
  return { userName, ...resource.parse(answer.json) }
}

export const patch = (...Operations: unknown[]) => ({ schemas: [patchUrn], Operations })

/** Bypasses row-level security. */
export async function people(tenantId: string): Promise<Record<string, unknown>[]> {
  return await world.rows(
    'select external_id, name, email, title, active from universe.person where tenant_id = $1 order by external_id',
    [tenantId],
  )
}

export async function nodes(tenantId: string): Promise<unknown[]> {
  const rows = await world.rows(
    `select n.node_key, n.status from universe.node n
      join universe.hierarchy h on h.tenant_id = n.tenant_id and h.id = n.hierarchy_id
      where n.tenant_id = $1 and h.key = 'scim' order by n.node_key`,
    [tenantId],
  )
  return rows.map(({ node_key: key, status }) => [key, status])
}

/** Omits the request id. */
export function words({ text }: CallAnswer): string {
  return text.replaceAll(/Request [^ ]+\./g, '')
}

export function errorOf(answer: CallAnswer): unknown {
  expect(answer.headers['content-type']).toBe('application/scim+json')
  const { status, scimType, detail } = scimErrorSchema.parse(answer.json)
  expect(status).toBe(String(answer.status))
  return [answer.status, scimType, detail]
}
