import { once } from 'node:events'
import { type Socket, connect, createServer } from 'node:net'
import { expect } from 'vitest'
import { type ReadOptions, failureOf, readSource } from './source-support.ts'

export interface FrozenPeer {
  readonly port: number
  /** Connections that their clients have not ended. */
  readonly open: ReadonlySet<Socket>
  /** Resolves when another connection has frozen. */
  frozen(): Promise<void>
  close(): void
}

/**
 * A proxy that passes bytes on until one of them contains `text`. From then on it passes nothing, and the connection stays
 * open.
 */
export async function startFrozenPeer({ port, text }: { port: number; text: string }): Promise<FrozenPeer> {
  const open = new Set<Socket>()
  const sockets = new Set<Socket>()
  let next = Promise.withResolvers<void>()
  // A frozen process does not close its half of a connection.
  const server = createServer({ allowHalfOpen: true }, (client: Socket) => {
    const behind: Socket = connect(port, '127.0.0.1')
    let isFrozen = false
    const pass = (bytes: Buffer, to: Socket): void => {
      if (isFrozen) return
      if (bytes.includes(text)) {
        isFrozen = true
        next.resolve()
      } else to.write(bytes)
    }
    for (const socket of [client, behind]) sockets.add(socket.on('error', () => undefined))
    open.add(client)
    for (const event of ['end', 'close']) client.on(event, () => void open.delete(client))
    client.on('data', (bytes) => pass(bytes, behind))
    behind.on('data', (bytes) => pass(bytes, client))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('it listens nowhere')
  return {
    port: address.port,
    open,
    frozen: async () => {
      next = Promise.withResolvers()
      await next.promise
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

/** Expects that silence, the time limit and a cancellation each end a read, and its connection. */
export async function expectToBeLeft(
  type: string,
  frozen: { port: number; text: string },
  optionsAt: (port: number) => ReadOptions,
): Promise<void> {
  const peer = await startFrozenPeer(frozen)
  const options = optionsAt(peer.port)
  try {
    expect((await failureOf(type, { ...options, limits: { maxSilenceMs: 500 } })).code).toBe('source_too_slow')
    expect((await failureOf(type, { ...options, limits: { maxDurationMs: 500 } })).code).toBe('source_too_slow')
    const cancelled = new AbortController()
    const reason = new Error('cancelled')
    const ending = readSource(type, { ...options, signal: cancelled.signal }).catch((error: unknown) => error)
    await peer.frozen()
    cancelled.abort(reason)
    expect(await ending).toBe(reason)
    await expect.poll(() => peer.open.size, { timeout: 20_000 }).toBe(0)
  } finally {
    peer.close()
  }
}
