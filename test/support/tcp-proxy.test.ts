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
  proxy = await startTcpProxy([portOf(echo)], /mark/)
})

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy()
  await proxy.close()
  echo.close()
})

function portOf(server: Server): number {
  const address = server.address()
  return address === null || typeof address === 'string' ? 0 : address.port
}

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

  test('breaks open and new connections while it is cut', async () => {
    const client = await open()
    await ask(client, 'one')
    proxy.cut()
    await expect(once(client, 'data')).rejects.toThrow('ECONNRESET')
    await expect(openAndRead()).rejects.toThrow('ECONNRESET')
    proxy.heal()
    expect(await ask(await open(), 'two')).toBe('two')
  })

  test('delays requests while it is frozen upwards', async () => {
    const client = await open()
    await ask(client, 'one')
    proxy.freeze('up')
    const answer = ask(client, 'two')
    for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate)
    expect(received).toEqual(['one'])
    proxy.heal()
    expect(await answer).toBe('two')
  })

  test('forwards requests and delays responses while it is frozen downwards', async () => {
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

  test('reports the number of delayed bytes', async () => {
    const client = await open()
    await ask(client, 'one')
    proxy.freeze('up')
    expect(proxy.held()).toBe(0)
    client.write('four')
    while (proxy.held() < 4) await new Promise(setImmediate)
    proxy.heal()
    expect(await once(client, 'data')).toEqual([Buffer.from('four')])
    expect(proxy.held()).toBe(0)
  })

  test('breaks or freezes only marked connections, also later ones', async () => {
    const [plain, marked] = [await open(), await open()]
    await ask(plain, 'one')
    await ask(marked, 'a mark')
    proxy.freeze('down', 'marked')
    marked.write('held')
    while (proxy.held() < 4) await new Promise(setImmediate)
    const late = await open()
    late.on('error', () => undefined)
    await ask(late, 'two')
    late.write('mark')
    while (proxy.held() < 8) await new Promise(setImmediate)
    expect(await ask(plain, 'three')).toBe('three')
    proxy.heal()
    expect(await once(marked, 'data')).toEqual([Buffer.from('held')])

    proxy.cut('marked')
    await expect(once(marked, 'data')).rejects.toThrow('ECONNRESET')
    expect(await ask(plain, 'four')).toBe('four')
    const next = await open()
    await expect(ask(next, 'mark')).rejects.toThrow('ECONNRESET')
    expect(proxy.broken()).toBe(3)
  })

  test('alternates between targets and skips one that rejects connections', async () => {
    const closed = createServer()
    closed.listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const [other, none] = [createServer((socket) => socket.end('other')), portOf(closed)]
    other.listen(0, '127.0.0.1')
    await once(other, 'listening')
    closed.close()
    await once(closed, 'close')
    const several = await startTcpProxy([portOf(echo), none, portOf(other)])
    try {
      const answers: string[] = []
      for (let count = 0; count < 4; count += 1) {
        const client = connect(several.port, '127.0.0.1')
        clients.push(client)
        answers.push(await ask(client, 'echo'))
      }
      expect(answers).toEqual(['echo', 'other', 'echo', 'other'])
    } finally {
      for (const client of clients) client.destroy()
      await several.close()
      other.close()
    }
  })
})
