import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** A port of this machine that leads to where only a container gets. */
export interface Tunnel {
  readonly url: string
  close(): Promise<void>
}

/** Each connection is a process in the container: it needs Node, which our image has, and nothing else. */
const program = `const s = require('net').connect(Number(process.argv[2]), process.argv[1])
process.stdin.pipe(s); s.pipe(process.stdout)
s.on('error', () => process.exit(1)); s.on('close', () => process.exit(0))`

/** Opens a port on the loopback address whose connections are made by `container` to `host:port`. */
export async function openTunnel(options: {
  readonly env: Readonly<Record<string, string>>
  readonly container: string
  readonly host: string
  readonly port: number
}): Promise<Tunnel> {
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
    // A connection that breaks off on one side ends on the other.
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
