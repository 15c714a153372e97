import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type RequestListener, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const healthcheck = join(import.meta.dirname, '..', '..', 'deploy', 'healthcheck.mjs')

async function listen(answer: RequestListener): Promise<number> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** The exit code of the image's health check, as a container of that environment runs it. */
async function check(env: Readonly<Record<string, string>>): Promise<number> {
  const [code] = await once(spawn(process.execPath, [healthcheck], { env, stdio: 'inherit' }), 'exit')
  return code
}

const ready: RequestListener = (request, response) => {
  response.writeHead(request.url === '/internal/health/ready' ? 200 : 404).end('{"status":"ready"}')
}

test('a process that says it is ready is healthy', async () => {
  expect(await check({ POSTERN_PORT: String(await listen(ready)) })).toBe(0)
})

test('a process whose check takes time, for example for its database, is healthy', async () => {
  const port = await listen((request, response) => {
    void (async () => {
      await once(spawn(process.execPath, ['--version'], { stdio: 'ignore' }), 'exit')
      ready(request, response)
    })()
  })
  expect(await check({ POSTERN_PORT: String(port) })).toBe(0)
})

test('a process that is not ready is unhealthy, whatever its response contains', async () => {
  const port = await listen((request, response) => {
    response.writeHead(503).end('{"status":"200 OK"}')
  })
  expect(await check({ POSTERN_PORT: String(port) })).toBe(1)
})

test('a process that closes the connection without a response is unhealthy', async () => {
  const port = await listen((request) => request.socket.destroy())
  expect(await check({ POSTERN_PORT: String(port) })).toBe(1)
})

test('a process that does not listen is unhealthy', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  expect(await check({ POSTERN_PORT: String(port) })).toBe(1)
})

test('a separate health port is used', async () => {
  const open = await listen((request, response) => response.writeHead(503).end())
  expect(await check({ POSTERN_PORT: String(open), POSTERN_ADMIN_PORT: String(await listen(ready)) })).toBe(0)
})
