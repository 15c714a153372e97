import { channel } from 'node:diagnostics_channel'
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { openTracing } from './tracing.ts'

const spanSchema = z.object({
  name: z.string(),
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().optional(),
})
const exportSchema = z.object({
  resourceSpans: z.array(z.object({ scopeSpans: z.array(z.object({ spans: z.array(spanSchema) })) })),
})

test('background work has its own trace, down to its statements, with its id in the log', async () => {
  const spans: z.infer<typeof spanSchema>[] = []
  const collector = createServer((request, response) => {
    void json(request).then((body) => {
      for (const { scopeSpans } of exportSchema.parse(body).resourceSpans)
        spans.push(...scopeSpans.flatMap((one) => one.spans))
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => void collector.listen(0, '127.0.0.1', resolve))
  const address = collector.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const source = { service: 'sync', followsCaller: true, onFailure: () => undefined }
  const tracing = await openTracing({ url: `http://127.0.0.1:${port}`, percent: 100 }, source)
  const logged = await tracing?.trace('sync run', { 'postern.job_id': 'one' }, async () => {
    await Promise.resolve()
    const message: { text: string; name: string; ended?: (error: unknown) => void } = { text: 'select 1', name: 'one' }
    channel('postern:statement').publish(message)
    message.ended?.(undefined)
    return tracing.logFields()
  })
  await tracing?.close()
  collector.closeAllConnections()
  collector.close()
  const [root, statement] = [spans.find(({ name }) => name === 'sync run'), spans.find(({ name }) => name === 'one')]
  expect(root?.parentSpanId ?? '').toBe('')
  expect(statement).toMatchObject({ traceId: root?.traceId, parentSpanId: root?.spanId })
  expect(logged).toEqual({ trace_id: root?.traceId })
})
