import { Socket } from 'node:net'
import { type DatabaseUrl, parseDatabaseUrl } from '@postern/contracts/internal'
import { Client, type ClientConfig, DatabaseError } from 'pg'

export class UnsuitableServerError extends Error {
  override readonly name = 'UnsuitableServerError'
}

export interface Servers {
  readonly count: number
  /** After a failure or if it is read-only, the next client tries the next server. */
  readonly Client: new (config?: ClientConfig) => Client
  haveSameServer(one: Client, other: Client): boolean
}

const sockets = new WeakMap<Client, Socket>()

export function recordSocket(client: Client, socket: Socket): void {
  sockets.set(client, socket)
}

/** With TLS it carries encrypted bytes. */
export function socketOf(client: Client): Socket {
  const socket = sockets.get(client)
  if (socket === undefined) throw new Error('the client has no recorded socket')
  return socket
}

/** Throws a DatabaseUrlError. */
export function openServers(connectionString: string): Servers {
  const { servers, requires } = parseDatabaseUrl(connectionString)
  const indexes = new WeakMap<Client, number>()
  let inUse = 0

  class ServerClient extends Client {
    readonly #index: number
    readonly #timeoutMs: number

    constructor({ connectionTimeoutMillis = 0, ...config }: ClientConfig = {}) {
      const index = inUse
      // An unresponsive server must not use up the time.
      const timeoutMs = Math.ceil(connectionTimeoutMillis / servers.length)
      const socket = new Socket()
      super({
        ...config,
        connectionString: servers[index] ?? '',
        connectionTimeoutMillis: timeoutMs,
        stream: () => socket,
      })
      recordSocket(this, socket)
      this.#index = index
      this.#timeoutMs = timeoutMs
      indexes.set(this, index)
    }

    override connect(): Promise<Client>
    override connect(callback: (error: Error | null, client?: Client) => void): void
    override connect(callback?: (error: Error | null, client?: Client) => void): Promise<Client> | void {
      const connected = this.#connectOrMoveOn()
      if (callback === undefined) return connected
      void connected.then(
        (client) => callback(null, client),
        (error: Error) => callback(error),
      )
    }

    async #connectOrMoveOn(): Promise<Client> {
      try {
        await super.connect()
        await this.#assertSuitable()
        return this
      } catch (error) {
        // If several clients fail at one server, only the first switches.
        if (inUse === this.#index) inUse = (inUse + 1) % servers.length
        void this.end().catch(() => undefined)
        throw error
      }
    }

    async #assertSuitable(): Promise<void> {
      if (requires === 'anything') return
      const timer = setTimeout(() => socketOf(this).destroy(), this.#timeoutMs)
      try {
        await assertSuitable(this, requires)
      } finally {
        clearTimeout(timer)
      }
    }
  }

  return {
    count: servers.length,
    Client: ServerClient,
    haveSameServer: (one, other) => indexes.get(one) === indexes.get(other),
  }
}

/**
 * A failed login does not stop the search, because a standby may lack a new password. Rejects with the first login
 * failure, or another error.
 */
export async function trySeveral<T>(
  count: number,
  attempt: () => Promise<T>,
  isOver: () => boolean = () => false,
): Promise<T> {
  const errors: unknown[] = []
  while (errors.length < count && !isOver()) {
    try {
      return await attempt()
    } catch (error) {
      if (count === 1) throw error
      errors.push(error)
    }
  }
  throw errors.find(isRefusedLogin) ?? new AggregateError(errors, errors.map(messageOf).join('; '))
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown'
}

/** The server rejected the login or lacks the database. */
function isRefusedLogin(error: unknown): boolean {
  return error instanceof DatabaseError && /^(?:28|3D)/.test(error.code ?? '')
}

/** Queries the server, because a pooler may report cached parameters. */
async function assertSuitable(client: Client, requires: DatabaseUrl['requires']): Promise<void> {
  const { rows } = await client.query<{ standby: boolean; read_only: boolean }>(
    `select pg_catalog.pg_is_in_recovery() as standby,
            pg_catalog.current_setting('default_transaction_read_only')::boolean as read_only`,
  )
  const [found] = rows
  if (found?.standby !== false) throw new UnsuitableServerError(`${client.host}:${client.port} is a standby`)
  if (requires === 'read-write' && found.read_only)
    throw new UnsuitableServerError(`${client.host}:${client.port} is read-only`)
}
