import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

const valueSchema = z.object({
  stringValue: z.string().optional(),
  intValue: z.union([z.string(), z.number()]).optional(),
})
const attributesSchema = z.array(z.object({ key: z.string(), value: valueSchema }))
const spanSchema = z.object({
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().optional(),
  name: z.string(),
  attributes: attributesSchema,
})
const exportSchema = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: attributesSchema }),
      scopeSpans: z.array(z.object({ spans: z.array(spanSchema) })),
    }),
  ),
})

type Received = z.infer<typeof spanSchema> & { readonly service: string }

/** An OTLP receiver over HTTP that stores what it receives. */
const received: Received[] = []
const bodies: string[] = []
const collector = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const text = Buffer.concat(chunks).toString()
    bodies.push(text)
    for (const { resource, scopeSpans } of exportSchema.parse(JSON.parse(text)).resourceSpans) {
      const service = resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue ?? ''
      for (const { spans } of scopeSpans) received.push(...spans.map((span) => ({ ...span, service })))
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
})

let stack: TestStack
let gateway: string
const traceId = 'c0ffee00c0ffee00c0ffee00c0ffee00'

beforeAll(async () => {
  await new Promise<void>((resolve) => void collector.listen(0, '127.0.0.1', resolve))
  const address: AddressInfo | string | null = collector.address()
  const port = typeof address === 'object' ? address?.port : undefined
  stack = await startTestStack({
    env: { POSTERN_OTLP_URL: `http://127.0.0.1:${port}`, OTEL_BSP_SCHEDULE_DELAY: '100' },
  })
  gateway = stack.gateways[0] ?? ''
})

afterAll(async () => {
  await stack.stop()
  collector.closeAllConnections()
  collector.close()
})

const ofTrace = (): Received[] => received.filter((span) => span.traceId === traceId)
/** The caller's own step. */
const callersSpan = '00f067aa0ba902b7'

const namesOf = (some: readonly Received[]) => [...new Set(some.map(({ service }) => service))].toSorted()

/** The received part of the trace: services, statements, and spans whose parent is missing. */
function arrived(): { services: string[]; statements: string[]; orphans: string[] } {
  const spans = ofTrace()
  const known = new Set([callersSpan, ...spans.map(({ spanId }) => spanId)])
  return {
    services: namesOf(spans),
    statements: namesOf(spans.filter(isStatement)),
    orphans: spans.filter(({ parentSpanId }) => !known.has(parentSpanId ?? '')).map(({ name }) => name),
  }
}

const isStatement = ({ attributes }: Received) => attributes.some(({ key }) => key === 'db.query.text')

test('one trace leads from the caller through gateway and services to every statement, and into the logs', async () => {
  const tenant = await stack.createTenant()
  const { key } = await stack.createKey(tenant, { scopes: ['*'] })
  const entities = [{ external_id: 'bank', name: 'Kept out of traces', type: 'legal_entity' }]
  await send(gateway, '/api/v1/sync/entities', { key, method: 'POST', body: entities })
  const path = '/api/v1/findings?subtree_of=ext:bank&q=Kept%20out%20of%20traces'
  const traceparent = `00-${traceId}-${callersSpan}-00`
  const answer = await send(gateway, path, { key, headers: { traceparent } })
  expect(answer.status, answer.text).toBe(200)
  // Each process sends its spans in batches: one may end between a statement and what it belongs to.
  await expect.poll(arrived).toEqual({
    services: ['postern-findings', 'postern-gateway', 'postern-universe'],
    statements: ['postern-findings', 'postern-universe'],
    orphans: [],
  })

  const spans = new Map(ofTrace().map((span) => [span.spanId, span]))
  const wayTo = (span: Received): string[] => {
    const parent = spans.get(span.parentSpanId ?? '')
    return [...(parent === undefined ? [] : wayTo(parent)), `${span.service} ${span.name}`]
  }
  const statements = ofTrace().filter(isStatement)
  const atUniverse = statements.filter(({ service }) => service === 'postern-universe')
  expect(atUniverse.length).toBeGreaterThan(0)
  for (const statement of atUniverse) {
    const [first, second, third, fourth] = wayTo(statement)
    expect([first, second]).toEqual(['postern-gateway GET /api/v1/findings', 'postern-findings GET /api/v1/findings'])
    expect(third).toMatch(/^postern-findings (?:GET|POST) http:\/\/127\.0\.0\.1:\d+$/)
    expect(fourth).toMatch(/^postern-universe (?:GET|POST) \/internal\//)
  }
  expect(statements.some(({ service }) => service === 'postern-findings')).toBe(true)
  // The caller's own step is the parent of ours; that he asked for no trace decides nothing.
  expect(ofTrace().find(({ service }) => service === 'postern-gateway')?.parentSpanId).toBe(callersSpan)
  const logged = async () => {
    const lines = (await stack.logs()).split('\n').filter((line) => line.includes('"event":"request"'))
    return lines
      .filter((line) => line.includes(`"trace_id":"${traceId}"`))
      .map((line) => /"service":"(\w+)"/.exec(line)?.[1])
      .toSorted()
  }
  await expect.poll(logged).toEqual(['findings', 'gateway', 'universe'])
  // Values of requests and rows are in no trace.
  expect(bodies.join('\n')).not.toMatch(/Kept out of traces|Kept%20out|postern_[0-9A-Za-z]{49}/)
})
