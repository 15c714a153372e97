import { type DatabaseUrl, parseDatabaseUrl } from '@postern/contracts/internal'
import { Client, type ClientConfig, DatabaseError } from 'pg'

/** The server answered, and is not what the connection string asks for. */
export class UnsuitableServerError extends Error {
  override readonly name = 'UnsuitableServerError'
}

/** The servers that a connection string names. */
export interface Servers {
  readonly count: number
  /** Connects to the server in use. If that fails, or the server cannot be written to, the next client tries the next server. */
  readonly Client: new (config?: ClientConfig) => Client
  /** Whether both clients go to the same server. */
  areTogether(one: Client, other: Client): boolean
}

/** Reads a connection string with one host or several. Throws a DatabaseUrlError. */
export function openServers(connectionString: string): Servers {
  const { servers, requires } = parseDatabaseUrl(connectionString)
  const indexes = new WeakMap<Client, number>()
  let inUse = 0

  class ServerClient extends Client {
    readonly #index: number
    readonly #timeoutMs: number

    constructor({ connectionTimeoutMillis = 0, ...config }: ClientConfig = {}) {
      const index = inUse
      // A share of the time for each, so that a server that does not answer leaves time for the others.
      const timeoutMs = Math.ceil(connectionTimeoutMillis / servers.length)
      super({ ...config, connectionString: servers[index] ?? '', connectionTimeoutMillis: timeoutMs })
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
        // Of several clients that fail at one server, the first moves on.
        if (inUse === this.#index) inUse = (inUse + 1) % servers.length
        void this.end().catch(() => undefined)
        throw error
      }
    }

    async #assertSuitable(): Promise<void> {
      if (requires === 'anything') return
      const timer = setTimeout(() => this.connection.stream.destroy(), this.#timeoutMs)
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
    areTogether: (one, other) => indexes.get(one) === indexes.get(other),
  }
}

/**
 * Tries each server once. A standby may lack a database or a password that the primary has already, so a refused login ends nothing.
 * Rejects with what was wrong, a refused login first. `isOver`: whether nobody waits any more.
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

/** The server refused the login, or has no such database. */
function isRefusedLogin(error: unknown): boolean {
  return error instanceof DatabaseError && /^(?:28|3D)/.test(error.code ?? '')
}

/** Asks the server itself: a pooler may remember what it was when the pooler connected. */
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
