import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Compose } from './compose.ts'

export interface Tunnel {
  readonly url: string
  close(): Promise<void>
}

/** The container needs only Node. */
const program = `const s = require('net').connect(Number(process.argv[2]), process.argv[1])
process.stdin.pipe(s); s.pipe(process.stdout)
s.on('error', () => process.exit(1)); s.on('close', () => process.exit(0))`

/** One relay for all connections, if possible: a process per connection is slow. */
const relay = `const net = require('net'), [host, port, own] = process.argv.slice(1)
net.createServer((from) => {
  const to = net.connect(Number(port), host)
  from.pipe(to); to.pipe(from)
  from.on('error', () => to.destroy()); to.on('error', () => from.destroy())
  from.on('close', () => to.destroy()); to.on('close', () => from.destroy())
}).listen(Number(own))`
const relayPort = 18_080

interface Way {
  readonly container: string
  readonly host: string
  readonly port: number
}

export async function openRelay(system: Pick<Compose, 'docker'>, { container, host, port }: Way): Promise<Tunnel> {
  await system.docker(['exec', '--detach', container, 'node', '-e', relay, host, String(port), String(relayPort)])
  const format = '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}'
  const [address = ''] = (await system.docker(['inspect', '--format', format, container])).split(' ')
  const deadline = performance.now() + 60_000
  while (!(await connects(address, relayPort))) {
    if (performance.now() > deadline) throw new Error(`no way to ${host} through ${container}`)
    await delay(100)
  }
  return { url: `http://${address}:${relayPort}`, close: async () => undefined }
}

async function connects(address: string, port: number): Promise<boolean> {
  const socket = connect(port, address)
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(2_000) })
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** `container` makes the connections to `host:port`. */
export async function openTunnel(options: Way & { readonly env: Readonly<Record<string, string>> }): Promise<Tunnel> {
  const { env, container, host, port } = options
  const children = new Set<ReturnType<typeof spawn>>()
  const server = createServer((socket) => {
    const args = ['exec', '--interactive', container, 'node', '-e', program, host, String(port)]
    const child = spawn('docker', args, { stdio: ['pipe', 'pipe', 'ignore'], env: { ...process.env, ...env } })
    children.add(child)
    child.once('exit', () => {
      children.delete(child)
      socket.destroy()
    })
    child.once('error', () => socket.destroy())
    child.stdin.on('error', () => socket.destroy())
    child.stdout.on('error', () => socket.destroy())
    socket.on('error', () => child.kill())
    socket.once('close', () => child.kill())
    socket.pipe(child.stdin)
    child.stdout.pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const local = address !== null && typeof address === 'object' ? address.port : 0
  return {
    url: `http://127.0.0.1:${local}`,
    close: async () => {
      for (const child of children) child.kill()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
