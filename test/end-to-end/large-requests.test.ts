import { bulkResultSchema, maxBulkItems, pushResultSchema, runSchema } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

// Through what stands between a service and PostgreSQL in an installation: values of a statement that are longer than any
// buffer on the way, with other statements right behind.

let stack: TestStack
let gateway: string
let key: string

beforeAll(async () => {
  stack = await startTestStack()
  gateway = stack.gateways[0] ?? ''
  ;({ key } = await stack.createKey(await stack.createTenant(), { scopes: ['*'] }))
})

afterAll(async () => {
  await stack.stop()
})

/** As long as an external id may be: a thousand of them are four times the 64 KiB of PgBouncer's `pkt_buf`. */
const longId = (of: string, n: number): string => `${of}-${n}-`.padEnd(255, 'x')

const numbers = (count: number): readonly number[] => Array.from({ length: count }, (_none, n) => n)
const rows = numbers(1000)
const entityIds = rows.map((n) => longId('entity', n))

async function total(path: string): Promise<unknown> {
  return (await send(gateway, `${path}?count=true&limit=1000`, { key })).headers['x-total-count']
}

describe('a push of a thousand rows with the longest ids', () => {
  test.each([
    [
      'entities',
      '/api/v1/entities',
      rows.map((n) => ({
        external_id: entityIds[n],
        name: `Entity ${n}`,
        type: 'process',
        // One tree, two deep.
        ...(n === 0 ? {} : { parent_external_id: entityIds[0] }),
      })),
    ],
    ['people', '/api/v1/people', rows.map((n) => ({ external_id: longId('person', n), name: `Person ${n}` }))],
    [
      'test-procedures',
      '/api/v1/test-procedures',
      rows.map((n) => ({ external_id: longId('procedure', n), title: `Procedure ${n}`, entities: [entityIds[n]] })),
    ],
    [
      'org-structures/legal',
      '/api/v1/hierarchies/legal/nodes',
      {
        name: 'Legal',
        kind: 'legal_entity',
        mode: 'full',
        nodes: rows.map((n) => ({ node_key: longId('node', n), name: `Node ${n}`, entities: [entityIds[n]] })),
      },
    ],
  ])('of %s is stored, found unchanged and listed', async (dataset, list, body) => {
    for (const counts of [
      { created: rows.length, unchanged: 0 },
      { created: 0, unchanged: rows.length },
    ]) {
      const pushed = await send(gateway, `/api/v1/sync/${dataset}`, { key, method: 'POST', body })
      expect(pushed.status, pushed.text).toBe(200)
      expect(pushResultSchema.parse(pushed.json).counts).toMatchObject(counts)
    }
    expect(await total(list)).toBe(String(rows.length))
  })
})

test('a bulk request of findings with the longest ids is stored, each with its log entry', async () => {
  const items = numbers(maxBulkItems).map((n) => ({
    external_id: longId('finding', n),
    title: `Finding ${n}`,
    condition: 'As seen. '.repeat(100),
    severity: 'low',
  }))
  const answer = await send(gateway, '/api/v1/findings/bulk', { key, method: 'POST', body: { items } })
  expect(answer.status, answer.text.slice(0, 1000)).toBe(200)
  const statuses = z
    .array(bulkResultSchema)
    .parse(answer.json)
    .map(({ status }) => status)
  expect(statuses).toEqual(items.map(() => 201))
  expect(await total('/api/v1/findings')).toBe(String(items.length))
  expect(await total('/api/v1/remediation-log')).toBe(String(items.length))
})

test('a connector can import a table of five thousand rows with the longest ids', async () => {
  const own = (await stack.createKey(await stack.createTenant(), { scopes: ['*'] })).key
  const body = { key: 'sheet', name: 'Sheet', type: 'csv', dataset: 'auditable_entities' }
  const made = await send(gateway, '/api/v1/connectors', { key: own, method: 'POST', body })
  const { id } = z.object({ id: z.string() }).parse(made.json)
  const lines = numbers(5000).map((n) => `${longId('row', n)},Row ${n},process`)
  const begun = await send(gateway, `/api/v1/connectors/${id}/runs`, {
    key: own,
    method: 'POST',
    body: ['external_id,name,type', ...lines, ''].join('\n'),
    headers: { 'content-type': 'text/csv' },
  })
  const run = z.object({ id: z.string() }).parse(begun.json)
  await expect
    .poll(async () => runSchema.parse((await send(gateway, `/api/v1/sync-runs/${run.id}`, { key: own })).json), {
      timeout: 100_000,
      interval: 200,
    })
    .toMatchObject({ status: 'succeeded', counts: { created: lines.length, invalid: 0, applied: lines.length } })
  const listed = await send(gateway, '/api/v1/entities?count=true&limit=1000', { key: own })
  expect(listed.headers['x-total-count']).toBe(String(lines.length))
})
