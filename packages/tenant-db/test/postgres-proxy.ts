import { once } from 'node:events'
import type { Socket } from 'node:net'
import { connect, createServer } from 'node:net'

/** A proxy between a client and PostgreSQL. It records the client's messages and can delay responses. */
export interface PostgresProxy extends AsyncDisposable {
  through(connectionString: string): string
  /**
   * The clients' messages since the start or `forget`: the protocol's letter with the SQL or the name of the statement.
   */
  readonly sent: readonly string[]
  forget(): void
  /** Waits until a client has sent this message. */
  hasSent(message: string): Promise<void>
  /** Delays every response until `letGo`. */
  hold(): void
  letGo(): void
  cut(): void
  /** Breaks the next connection when it opens. */
  refuseNext(): void
}

export async function openPostgresProxy(connectionString: string): Promise<PostgresProxy> {
  const target = new URL(connectionString)
  const sent: string[] = []
  const waiting = new Map<string, PromiseWithResolvers<void>>()
  const held: (() => void)[] = []
  const sockets = new Set<Socket>()
  let holding = false
  let isNextRefused = false

  const note = (message: string): void => {
    sent.push(message)
    waiting.get(message)?.resolve()
  }
  const server = createServer((client) => {
    if (isNextRefused) {
      isNextRefused = false
      client.destroy()
      return
    }
    const upstream = connect(Number(target.port), target.hostname)
    const read = readMessages(note)
    client.on('data', (bytes) => {
      read(bytes)
      upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      if (holding) held.push(() => client.write(bytes))
      else client.write(bytes)
    })
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return {
    through: (original) => {
      const url = new URL(original)
      url.port = String(port)
      return url.href
    },
    sent,
    forget: () => void sent.splice(0),
    hasSent: async (message) => {
      if (sent.includes(message)) return
      const waiter = Promise.withResolvers<void>()
      waiting.set(message, waiter)
      await waiter.promise
    },
    hold: () => {
      holding = true
    },
    letGo: () => {
      holding = false
      for (const write of held.splice(0)) write()
    },
    cut: () => {
      for (const socket of sockets) socket.destroy()
    },
    refuseNext: () => {
      isNextRefused = true
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Splits the bytes of a client into messages. Only the startup message has no letter. */
function readMessages(note: (message: string) => void): (bytes: Buffer) => void {
  let rest = Buffer.alloc(0)
  let started = false
  return (bytes) => {
    rest = Buffer.concat([rest, bytes])
    for (;;) {
      const head = started ? 1 : 0
      if (rest.length < head + 4) return
      const length = head + rest.readInt32BE(head)
      if (rest.length < length) return
      if (started) note(describe(rest.subarray(0, length)))
      started = true
      rest = rest.subarray(length)
    }
  }
}

function describe(message: Buffer): string {
  const letter = message.toString('latin1', 0, 1)
  // Returns the text of a query or prepared statement, or the name of an executed one.
  if (letter === 'Q') return `Q ${message.toString('utf8', 5, message.length - 1)}`
  if (letter === 'P') return `P ${message.toString('utf8', 5).split('\0')[1]}`
  if (letter === 'B') return `B ${message.toString('utf8', 5).split('\0')[1]}`.trimEnd()
  return letter
}
