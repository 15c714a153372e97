import { once } from 'node:events'
import { type AddressInfo, type Socket, connect } from 'node:net'
import { fastify } from 'fastify'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { ReadBody, readAhead } from './read-ahead.ts'

const read: string[] = []
const handled: unknown[] = []
const schema = z.strictObject({ name: z.string().transform((name) => (read.push(name), name.toUpperCase())) })
const app = fastify({ forceCloseConnections: true })
let port: number

beforeAll(async () => {
  app.register(async (scope) => {
    readAhead(scope, schema, 100)
    scope.post('/', async ({ body }) => {
      const seen = body instanceof ReadBody ? { early: body.value } : { late: body }
      handled.push(seen)
      return seen
    })
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  port = (app.server.address() as AddressInfo).port
})

afterAll(async () => await app.close())

/** Sends all of a body but its last byte. */
async function begin(body: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const head = `POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`
  socket.write(`${head}\r\n\r\n${body.slice(0, -1)}`)
  return socket
}

async function answerOf(socket: Socket): Promise<string> {
  let answer = ''
  for await (const part of socket) answer += String(part)
  return answer.split('\r\n\r\n')[1] ?? ''
}

test('a body without its last byte is read but not executed', async () => {
  const socket = await begin('{"name":"first"}')
  await expect.poll(() => read).toContain('first')
  expect(handled).toEqual([])
  socket.write('}')
  expect(await answerOf(socket)).toBe('{"early":{"name":"FIRST"}}')
  expect(read).toEqual(['first'])
})

test('an interrupted request is not executed, even if its body was read', async () => {
  handled.length = 0
  const socket = await begin('{"name":"broken"}')
  await expect.poll(() => read).toContain('broken')
  socket.destroy()
  const next = await begin('{"name":"next"}')
  await expect.poll(() => read).toContain('next')
  next.write('}')
  expect(await answerOf(next)).toContain('NEXT')
  expect(handled).toEqual([{ early: { name: 'NEXT' } }])
})

test('the last byte counts if it changes the body', async () => {
  const other = await begin('{"name":"other"]')
  await expect.poll(() => read).toContain('other')
  other.write(']')
  expect(await answerOf(other)).toMatch(/"statusCode":(?:400|500)/)
  const spaced = await begin('{"name":"spaced"} ')
  spaced.write(' ')
  expect(await answerOf(spaced)).toBe('{"late":{"name":"spaced"}}')
})

test('a body that is not valid, or larger than it may be, is left to be refused', async () => {
  const invalid = await begin('{"name":7}')
  invalid.write('}')
  expect(await answerOf(invalid)).toBe('{"late":{"name":7}}')
  const large = await begin(`{"name":"${'x'.repeat(100)}"}`)
  expect(await answerOf(large)).toContain('content_too_large')
})
