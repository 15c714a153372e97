import { once } from 'node:events'
import { connect } from 'node:net'
import { createLogger, createMetrics, watchServer } from '@postern/service-kit'
import { expect, test } from 'vitest'
import { createGatewayApp } from './app.ts'

test('shuts down in order even if a client has an idle connection', async () => {
  const app = createGatewayApp({
    refusePipelined: (_request, response) => response.end(),
    keepAliveMs: 60_000,
    metrics: createMetrics('test'),
    handle: (_request, response) => response.end('answered'),
    onCrash: (_request, _response, error) => {
      throw error
    },
    onUnreadable: () => undefined,
    maxHeaderBytes: 16_384,
    clientTimeoutMs: 10_000,
  })
  const server = watchServer(app)
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const silent = connect(Number(new URL(url).port), '127.0.0.1')
  silent.on('error', () => undefined)
  await once(silent, 'connect')
  // Connections are accepted in order.
  const answer = await fetch(url)
  expect(await answer.text()).toBe('answered')
  const gone = once(silent, 'close')
  const logger = createLogger({ service: 'test', level: 'info', write: () => undefined })
  await server.close({ drainMs: 0, withinMs: 600_000, logger })
  await gone
})
