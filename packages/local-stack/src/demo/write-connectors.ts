import { setTimeout as delay } from 'node:timers/promises'
import { connectorSchema, runSchema } from '@postern/contracts'
import { z } from 'zod'
import { type GatewayTarget, callGateway } from './call-gateway.ts'
import type { DemoConnector } from './connectors.ts'

const maxWaitMs = 60_000

export async function writeConnectors(target: GatewayTarget, connectors: readonly DemoConnector[]): Promise<void> {
  for (const { body, uploads, isPaused } of connectors) {
    await callGateway(target, { method: 'POST', path: '/api/v1/connectors', json: body, expected: [201, 409] })
    const found = await callGateway(target, { method: 'GET', path: `/api/v1/connectors/key:${body.key}` })
    const { id, state } = connectorSchema.parse(found.json)
    const runs = await callGateway(target, { method: 'GET', path: `/api/v1/sync-runs?connector=${body.key}` })
    for (const csv of uploads.slice(z.array(z.unknown()).parse(runs.json).length)) await upload(target, id, csv)
    if (isPaused && state === 'active') {
      const json = { state: 'paused' }
      const path = `/api/v1/connectors/${id}`
      await callGateway(target, { method: 'PATCH', path, json, ifMatch: found.etag, expected: [200, 412] })
    }
  }
}

/** Creates users as an identity provider does; 409 means that they exist. */
export async function writeScimUsers(target: GatewayTarget, users: readonly object[]): Promise<void> {
  for (const json of users) {
    await callGateway(target, { method: 'POST', path: '/scim/v2/Users', json, expected: [201, 409] })
  }
}

async function upload(target: GatewayTarget, connector: string, csv: string): Promise<void> {
  const path = `/api/v1/connectors/${connector}/runs`
  let run = runSchema.parse((await callGateway(target, { method: 'POST', path, csv, expected: [202] })).json)
  const endsAt = performance.now() + maxWaitMs
  while (run.finished_at === null && run.status !== 'needs_approval' && performance.now() < endsAt) {
    await delay(50)
    run = runSchema.parse((await callGateway(target, { method: 'GET', path: `/api/v1/sync-runs/${run.id}` })).json)
  }
}
