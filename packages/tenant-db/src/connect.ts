import type { Client } from 'pg'
import { openServers, trySeveral } from './servers.ts'

export interface Connection extends AsyncDisposable {
  readonly client: Client
}

const connectTimeoutMs = 10_000

/** The writable server. Rejects after ten seconds. */
export async function connect(connectionString: string): Promise<Connection> {
  const servers = openServers(connectionString)
  return await trySeveral(servers.count, async () => {
    const client = new servers.Client({
      connectionTimeoutMillis: connectTimeoutMs,
      application_name: 'postern-admin',
      keepAlive: true,
    })
    // Without a listener, the process would end.
    client.on('error', () => undefined)
    await client.connect()
    return { client, [Symbol.asyncDispose]: () => client.end() }
  })
}
