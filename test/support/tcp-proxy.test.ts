import { once } from 'node:events'
import { type Server, type Socket, connect, createServer } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type TcpProxy, startTcpProxy } from './tcp-proxy.ts'

let echo: Server
let proxy: TcpProxy
const received: string[] = []
const clients: Socket[] = []

beforeEach(async () => {
  received.length = 0
  echo = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      received.push(chunk.toString())
      socket.write(chunk)
    })
  })
  echo.listen(0, '127.0.0.1')
  await once(echo, 'listening')
  const address = echo.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  proxy = await startTcpProxy(address.port)
})

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy()
  await proxy.close()
  echo.close()
})

async function open(): Promise<Socket> {
  const client = connect(proxy.port, '127.0.0.1')
  clients.push(client)
  await once(client, 'connect')
  return client
}

async function openAndRead(): Promise<unknown> {
  return await once(await open(), 'data')
}

async function ask(client: Socket, text: string): Promise<string> {
  client.write(text)
  const [chunk] = await once(client, 'data')
  return String(chunk)
}

describe('a proxy that can fail', () => {
  test('passes bytes both ways', async () => {
    expect(await ask(await open(), 'one')).toBe('one')
  })

  test('cut, breaks what is open and every new connection, until it is healed', async () => {
    const client = await open()
    await ask(client, 'one')
    proxy.cut()
    await expect(once(client, 'data')).rejects.toThrow('ECONNRESET')
    await expect(openAndRead()).rejects.toThrow('ECONNRESET')
    proxy.heal()
    expect(await ask(await open(), 'two')).toBe('two')
  })

  test('frozen upwards, holds back what is asked, and passes it on when healed', async () => {
    const client = await open()
    await ask(client, 'one')
    proxy.freeze('up')
    const answer = ask(client, 'two')
    for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate)
    expect(received).toEqual(['one'])
    proxy.heal()
    expect(await answer).toBe('two')
  })

  test('frozen downwards, lets through what is asked and holds back the answer', async () => {
    const client = await open()
    await ask(client, 'one')
    proxy.freeze('down')
    let answered = false
    const answer = ask(client, 'two').then((text) => {
      answered = true
      return text
    })
    while (received.length < 2) await new Promise(setImmediate)
    for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate)
    expect(answered).toBe(false)
    proxy.heal()
    expect(await answer).toBe('two')
  })
})
