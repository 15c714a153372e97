import type { Client } from 'pg'
import { openServers, trySeveral } from './servers.ts'

export interface Connection extends AsyncDisposable {
  readonly client: Client
}

const connectTimeoutMs = 10_000

/** Connects to the writable server. Rejects after ten seconds. */
export async function connect(connectionString: string): Promise<Connection> {
  const servers = openServers(connectionString)
  return await trySeveral(servers.count, async () => {
    const client = new servers.Client({
      connectionTimeoutMillis: connectTimeoutMs,
      application_name: 'postern-admin',
      keepAlive: true,
    })
    // An error without a listener would end the process.
    client.on('error', () => undefined)
    await client.connect()
    return { client, [Symbol.asyncDispose]: () => client.end() }
  })
}
