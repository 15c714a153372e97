import { entitySchema } from '@postern/contracts'
import { z } from 'zod'
import { type GatewayTarget, callGateway } from './call-gateway.ts'
import type { DemoPeople } from './people.ts'
import type { DemoUniverse } from './universe.ts'

/**
 * Completed test procedures are pushed as "in review", because they accept no evidence. A repetition changes nothing.
 */
export async function pushUniverse(target: GatewayTarget, people: DemoPeople, universe: DemoUniverse): Promise<void> {
  await pushParts(target, 'people', people.rows)
  // A parent is in the same part as its children or in an earlier one.
  await pushParts(target, 'entities', universe.entities, 1000)
  for (const { key, push: hierarchy } of universe.hierarchies)
    await pushRows(target, `org-structures/${key}`, hierarchy)
  const completed = await readIds(target, '/api/v1/test-procedures?status=completed&limit=1000')
  const open = universe.testProcedures
    .filter(({ external_id: id }) => !completed.has(id))
    .map(({ conclusion: _conclusion, ...procedure }) =>
      procedure.status === 'completed' ? { ...procedure, status: 'in_review' } : procedure,
    )
  await pushParts(target, 'test-procedures', open)
}

export async function completeTestProcedures(target: GatewayTarget, { testProcedures }: DemoUniverse): Promise<void> {
  await pushParts(target, 'test-procedures', testProcedures)
}

export async function readEntityIds(target: GatewayTarget): Promise<Map<string, string>> {
  return await readIds(target, '/api/v1/entities?limit=1000')
}

const pageSchema = z.array(entitySchema.pick({ id: true, external_id: true }))

async function readIds(target: GatewayTarget, list: string): Promise<Map<string, string>> {
  const ids = new Map<string, string>()
  let path: string | undefined = list
  while (path !== undefined) {
    const { json, link }: { json: unknown; link: string } = await callGateway(target, { method: 'GET', path })
    for (const { id, external_id } of pageSchema.parse(json)) if (external_id !== null) ids.set(external_id, id)
    path = /<([^>]+)>; rel="next"/.exec(link)?.[1]
  }
  return ids
}

async function pushParts(target: GatewayTarget, what: string, rows: readonly unknown[], size = 2000): Promise<void> {
  for (let from = 0; from < rows.length; from += size) await pushRows(target, what, rows.slice(from, from + size))
}

async function pushRows(target: GatewayTarget, what: string, json: unknown): Promise<void> {
  await callGateway(target, { method: 'POST', path: `/api/v1/sync/${what}`, json })
}
