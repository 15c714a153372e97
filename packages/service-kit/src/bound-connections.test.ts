import { once } from 'node:events'
import { Agent, type IncomingMessage, type Server, createServer, request } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { Registry } from '@prometheus-io/client'
import { expect, onTestFinished, test } from 'vitest'
import { type ConnectionBounds, boundConnections } from './bound-connections.ts'

async function start(bounds: Pick<ConnectionBounds, 'max' | 'ownerOf'>) {
  const warnings: unknown[] = []
  const metrics = new Registry()
  const server: Server = createServer((_request, response) => void response.end('answered'))
  boundConnections(server, { ...bounds, metrics, logger: { warn: (what: unknown) => void warnings.push(what) } })
  server.listen(0)
  await once(server, 'listening')
  const agents: Agent[] = []
  onTestFinished(() => {
    for (const agent of agents) agent.destroy()
    server.close()
  })
  return {
    warnings,
    open: async (): Promise<number> =>
      await new Promise((resolve) => {
        server.getConnections((_error, count) => resolve(count))
      }),
    refused: async (): Promise<string[]> =>
      (await metrics.metrics()).match(/^postern_connections_refused_total\{.*$/gm) ?? [],
    /** Asks once over a connection of its own, which stays open; answers it. */
    visit: async (from = '127.0.0.1'): Promise<Socket> => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      agents.push(agent)
      const { port } = server.address() as AddressInfo
      const asked = request({ host: '127.0.0.1', localAddress: from, port, agent }).end()
      const [answer] = (await once(asked, 'response')) as [IncomingMessage]
      const { socket } = answer
      answer.resume()
      await once(answer, 'end')
      return socket
    },
  }
}

test('many idle connections of one client do not keep others out', async () => {
  const { visit } = await start({ max: 10 })
  const idle: Socket[] = []
  for (let visitor = 0; visitor < 40; visitor += 1) idle.push(await visit())
  expect(idle.some(({ destroyed }) => destroyed)).toBe(true)
})

test('one address gets at most half of the connections, and a trusted proxy gets all it needs', async () => {
  const { visit, open, refused, warnings } = await start({
    max: 40,
    ownerOf: (address) => (address.endsWith('127.0.0.3') ? undefined : address),
  })
  const first = await visit()
  for (let visitor = 1; visitor < 20; visitor += 1) await visit()
  await expect(visit()).rejects.toMatchObject({ code: 'ECONNRESET' })
  await expect(visit()).rejects.toMatchObject({ code: 'ECONNRESET' })
  expect(await refused()).toEqual([expect.stringMatching(/full"\} 0$/), expect.stringMatching(/address"\} 2$/)])
  // Told once, however many they are.
  expect(warnings).toEqual([expect.objectContaining({ event: 'connections_refused', reason: 'address', max: 40 })])
  await visit('127.0.0.2')
  for (let visitor = 0; visitor < 5; visitor += 1) await visit('127.0.0.3')
  // What is closed makes room for another one.
  const before = await open()
  first.destroy()
  await expect.poll(open).toBe(before - 1)
  await visit()
})

test('connections that one address opens while few are in use count towards its half', async () => {
  const { visit, open } = await start({ max: 40, ownerOf: (address) => address })
  const others: Socket[] = []
  for (let visitor = 0; visitor < 21; visitor += 1) others.push(await visit(`127.0.1.${visitor}`))
  for (const socket of others.slice(0, 10)) socket.destroy()
  await expect.poll(open).toBe(11)
  for (let visitor = 0; visitor < 20; visitor += 1) await visit('127.0.0.2')
  await expect(visit('127.0.0.2')).rejects.toMatchObject({ code: 'ECONNRESET' })
})
