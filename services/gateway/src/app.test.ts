import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { createGatewayApp } from './app.ts'

test('ends in order also while a client has a connection over which it asks nothing', async () => {
  const app = createGatewayApp({
    handle: (_request, response) => response.end('answered'),
    onCrash: (_request, _response, error) => {
      throw error
    },
    maxHeaderBytes: 16_384,
    maxConnections: 100,
    clientTimeoutMs: 10_000,
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const silent = connect(Number(new URL(url).port), '127.0.0.1')
  silent.on('error', () => undefined)
  await once(silent, 'connect')
  // Connections are taken in the order in which they come.
  const answer = await fetch(url)
  expect(await answer.text()).toBe('answered')
  const gone = once(silent, 'close')
  await app.close()
  await gone
})
