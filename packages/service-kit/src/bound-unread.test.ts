import { once } from 'node:events'
import { type Server, createServer } from 'node:http'
import { type AddressInfo, type Socket, connect } from 'node:net'
import { Registry } from '@prometheus-io/client'
import { afterEach, expect, test } from 'vitest'
import { boundUnread } from './bound-unread.ts'

const mebibyte = 1024 * 1024
/** More than the kernel takes for a client that reads nothing. */
const answer = Buffer.alloc(8 * mebibyte)

let server: Server
const clients: Socket[] = []

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy()
  server.close()
  server.closeAllConnections()
  await once(server, 'close')
})

/** Connects a client that asks and reads nothing. Returns the server's end of the connection once its answer waits. */
async function connectUnread(owner: string): Promise<Socket> {
  const { port }: AddressInfo = Object(server.address())
  const client = connect(port, '127.0.0.1')
  clients.push(client)
  client.pause()
  client.on('error', () => undefined)
  client.write(`GET /${owner} HTTP/1.1\r\nHost: a\r\n\r\n`)
  const [request]: { socket: Socket }[] = await once(server, 'request')
  if (request === undefined) throw new Error('there was no request')
  return request.socket
}

test('too many unread bytes cut connections of the owner that has most of them, not the one that has waited longest', async () => {
  const owners = new Map<Socket, string>()
  server = createServer((request, response) => {
    owners.set(request.socket, request.url ?? '')
    response.end(answer)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const registry = new Registry()
  boundUnread(server, { maxBytes: 20 * mebibyte, findOwners: () => owners, metrics: registry })
  const patient = await connectUnread('one')
  const others: Socket[] = []
  for (let at = 0; at < 6; at += 1) others.push(await connectUnread('many'))
  await expect.poll(() => others.filter((socket) => socket.destroyed).length).toBeGreaterThan(2)
  await expect.poll(() => waiting([patient, ...others])).toBeLessThan(20 * mebibyte)
  expect(patient.destroyed).toBe(false)
  expect(patient.writableLength).toBeGreaterThan(0)
})

function waiting(sockets: readonly Socket[]): number {
  return sockets.reduce((sum, socket) => sum + (socket.destroyed ? 0 : socket.writableLength), 0)
}
