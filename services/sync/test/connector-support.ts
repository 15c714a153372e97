import { randomUUID } from 'node:crypto'
import { type Connector, connectorSchema } from '@postern/contracts'
import type { CallAnswer, Principal, SignedCaller } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect } from 'vitest'
import { makeWorld } from './support.ts'

type World = Awaited<ReturnType<typeof makeWorld>>

/** A port without a server: managing connectors needs no universe. */
export const nowhere = 'http://127.0.0.1:9'
export const secret = 'correct horse battery staple'
export const path = '/api/v1/connectors'

export function connectorBody(fields: Record<string, unknown> = {}) {
  return {
    key: `c-${randomUUID()}`,
    name: 'ERP',
    type: 'http_json',
    dataset: 'people',
    config: { url: 'https://erp.example/people' },
    ...fields,
  }
}

/** A sync service without a universe. Each test file calls it. */
export function useConnectors() {
  let world: World
  let sync: Awaited<ReturnType<World['startSync']>>
  let caller: SignedCaller
  beforeAll(async () => {
    world = await makeWorld()
    sync = await world.startSync(nowhere)
    caller = world.syncCaller(sync.url)
  })
  afterAll(async () => {
    await sync.close()
    await world.close()
  })

  async function tryCreate(tenant: Principal, fields: Record<string, unknown> = {}): Promise<CallAnswer> {
    return await caller.call(tenant, 'POST', path, { body: connectorBody(fields) })
  }

  async function create(tenant: Principal, fields: Record<string, unknown> = {}) {
    const { status, text, json, headers } = await tryCreate(tenant, fields)
    expect(status, text).toBe(201)
    return { connector: connectorSchema.parse(json), etag: headers['etag'] ?? '' }
  }

  /** Changes a connector, whatever its version. */
  async function patch(tenant: Principal, { id }: Connector, body: object) {
    const { status, json } = await caller.call(tenant, 'PATCH', `${path}/${id}`, { body, headers: { 'if-match': '*' } })
    return { status, json }
  }

  return { world: () => world, caller: () => caller, tryCreate, create, patch }
}
