import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { openGateway } from './gateway.ts'

test('an idle connection is closed by the console, before a gateway that drains would cut it', async () => {
  // It would keep it for longer than this test may take, as a gateway does.
  const server = createServer({ keepAliveTimeout: 75_000 }, (_request, response) => response.end('{}'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const gateway = openGateway(`http://127.0.0.1:${address.port}`)
  try {
    const connected = Promise.withResolvers<Socket>()
    server.once('connection', connected.resolve)
    await gateway.ping()
    const socket = await connected.promise
    await expect(once(socket, 'end')).resolves.toBeDefined()
  } finally {
    await gateway.close()
    server.closeAllConnections()
    server.close()
  }
}, 20_000)
