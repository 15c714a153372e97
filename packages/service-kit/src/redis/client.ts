import { Cluster, Redis } from 'ioredis'
import { z } from 'zod'
import { type RedisAddress, parseRedisAddress } from './address.ts'
import { type ConnectorOptions, type RedisNode, createConnectorClass } from './guarded-connector.ts'
import { createMasterFinder } from './sentinels.ts'

/** The commands of a server or a cluster. */
export type RedisClient = Redis | Cluster

export interface RedisClientOptions {
  /** Shown in CLIENT LIST. */
  readonly name: string
  /** A command without an answer in this time rejects. Handshakes have longer, so that a slow Redis is not reconnected forever. */
  readonly commandTimeoutMs: number
  /** Combines the commands of one tick into one write. */
  readonly pipelines?: boolean
}

const connectTimeoutMs = 1000
const longestPauseMs = 1000
/** After a connection of this age, the next attempt follows immediately. */
const goodConnectionMs = 5000

/** The delay before the next attempt, in milliseconds. It grows with each quick failure. */
function createBackoff(): () => number {
  let attempts = 0
  let lastAt = -Infinity
  return () => {
    const now = performance.now()
    attempts = now - lastAt > goodConnectionMs ? 1 : attempts + 1
    lastAt = now
    return Math.min(50 * attempts, longestPauseMs)
  }
}

/**
 * Opens a connection to the address in `settings.redisUrl` that reconnects forever. Commands are not repeated, so that no request
 * waits for Redis. Throws for an invalid address.
 */
export function openRedisClient(url: string, options: RedisClientOptions): RedisClient {
  const address = readAddress(url)
  const { mode, nodes, isEncrypted } = address
  const own = { enableOfflineQueue: false, enableAutoPipelining: options.pipelines ?? false }
  // Applies to commands that are sent from now on.
  const answersInTime = (client: Redis): Redis => {
    client.on('ready', () => (client.options.commandTimeout = options.commandTimeoutMs))
    client.on('close', () => (client.options.commandTimeout = connectTimeoutMs))
    return client
  }
  if (mode === 'cluster') {
    const cluster = new Cluster([...nodes], {
      ...own,
      redisOptions: { ...commonOptions(address, options.name), Connector: connectorOf({ isEncrypted }) },
      clusterRetryStrategy: createBackoff(),
      // Refresh slots soon after a node has gone.
      maxRedirections: 3,
      retryDelayOnFailover: 20,
      slotsRefreshTimeout: connectTimeoutMs,
      slotsRefreshInterval: 2000,
    })
    cluster.on('+node', answersInTime)
    return cluster
  }
  return answersInTime(requireMaster(address, new Redis({ ...serverOptions(address, options.name), ...own })))
}

/**
 * Opens a connection for a subscription. Subscribe whenever it is `ready`. In a cluster every node receives all messages, so the
 * next node of the address is tried after a failure.
 */
export function openRedisSubscriber(url: string, name: string): Redis {
  const address = readAddress(url)
  const own = { autoResubscribe: false, enableOfflineQueue: false }
  return requireMaster(address, new Redis({ ...serverOptions(address, name), ...own }))
}

const helloSchema = z.array(z.unknown()).transform((parts) => parts[parts.indexOf('role') + 1])

/** Closes connections to former masters, which Sentinels may name, and asks the Sentinels again. */
function requireMaster({ mode }: RedisAddress, client: Redis): Redis {
  if (mode !== 'sentinel') return client
  client.on('ready', () => {
    client.call('HELLO', '2').then(
      (answer) => {
        if (helloSchema.safeParse(answer).data !== 'master') client.disconnect(true)
      },
      // The health check notices closed and silent connections.
      () => undefined,
    )
  })
  return client
}

function readAddress(url: string): RedisAddress {
  const address = parseRedisAddress(url)
  if (address === undefined) throw new Error('the address of Redis has none of the known forms')
  return address
}

function connectorOf(options: Omit<ConnectorOptions, 'connectTimeoutMs'>): ReturnType<typeof createConnectorClass> {
  return createConnectorClass({ ...options, connectTimeoutMs })
}

function commonOptions({ user, password }: RedisAddress, name: string) {
  return {
    connectionName: name,
    // RESP2 replies are easier to check.
    protocol: 2,
    // Logins of components may not call INFO, which the client's own check sends. PING fails while Redis loads data.
    enableReadyCheck: false,
    disableClientInfo: true,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: connectTimeoutMs,
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
  } as const
}

/** Options for one server: the address's, the Sentinels' master, or a node of the cluster. */
function serverOptions(address: RedisAddress, name: string) {
  const { mode, nodes, isEncrypted } = address
  const [first = { host: '', port: 0 }] = nodes
  const common = { ...commonOptions(address, name), ...first, retryStrategy: createBackoff() }
  switch (mode) {
    case 'single':
      return { ...common, Connector: connectorOf({ isEncrypted }), reconnectOnError: () => false }
    case 'cluster':
      return { ...common, Connector: connectorOf({ isEncrypted, findNode: inTurn(nodes) }) }
    case 'sentinel':
      return {
        ...common,
        Connector: connectorOf({
          isEncrypted,
          findNode: createMasterFinder(address, connectTimeoutMs),
        }),
        // A former master. The Sentinels know the new one.
        reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
      }
    default:
      return mode satisfies never
  }
}

function inTurn(nodes: readonly RedisNode[]): () => Promise<RedisNode> {
  let next = Math.floor(Math.random() * nodes.length)
  return async () => {
    const node = nodes[next % nodes.length]
    next += 1
    if (node === undefined) throw new Error('the address of Redis names no node')
    return node
  }
}
