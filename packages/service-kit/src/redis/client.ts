import { Cluster, Redis } from 'ioredis'
import { parseRedisAddress } from './address.ts'

/** The same commands, whether one server answers or the nodes of a cluster. */
export type RedisClient = Redis | Cluster

export interface RedisClientOptions {
  /** Shown in CLIENT LIST. */
  readonly name: string
  /**
   * A command that has no answer in this time rejects. Undefined: it waits, as a subscription must. What a connection begins with
   * has longer: a Redis that is slow for a while would be connected to again and again, and never be used again.
   */
  readonly commandTimeoutMs?: number
  /** True keeps what is asked while there is no connection. Default: that rejects at once. */
  readonly waitsForConnection?: boolean
  /** Puts what is asked in one turn of the event loop into one write. */
  readonly pipelines?: boolean
}

const connectTimeoutMs = 1000
const longestPauseMs = 1000

/** Before the next attempt to connect, in milliseconds. */
function pause(attempts: number): number {
  return Math.min(50 * attempts, longestPauseMs)
}

/**
 * Opens a connection that is tried anew for ever, to Redis at an address of `settings.redisUrl`. Nothing is repeated: what fails
 * rejects, so that no request waits for a Redis that is away. Throws for an address that has none of the known forms.
 */
export function openRedisClient(url: string, options: RedisClientOptions): RedisClient {
  const address = parseRedisAddress(url)
  if (address === undefined) throw new Error('the address of Redis has none of the known forms')
  const { mode, nodes, user, password, isEncrypted, group, sentinelPassword } = address
  const waits = options.waitsForConnection ?? false
  const common = {
    connectionName: options.name,
    connectTimeout: connectTimeoutMs,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: waits ? null : 0,
    ...(options.commandTimeoutMs === undefined ? {} : { commandTimeout: connectTimeoutMs }),
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
    ...(isEncrypted ? { tls: {} } : {}),
  }
  const own = {
    enableOfflineQueue: waits,
    enableAutoPipelining: options.pipelines ?? false,
  }
  // Each command is given the time that stands here when it is sent.
  const answersInTime = (client: Redis): Redis => {
    const { commandTimeoutMs } = options
    if (commandTimeoutMs === undefined) return client
    client.on('ready', () => (client.options.commandTimeout = commandTimeoutMs))
    client.on('close', () => (client.options.commandTimeout = connectTimeoutMs))
    return client
  }
  if (mode === 'cluster') {
    const cluster = new Cluster([...nodes], {
      ...own,
      redisOptions: common,
      clusterRetryStrategy: pause,
      // A node says where a slot is now; after one that is gone its slots are asked for again, soon.
      maxRedirections: 3,
      retryDelayOnFailover: 20,
      slotsRefreshTimeout: connectTimeoutMs,
      slotsRefreshInterval: 2000,
    })
    cluster.on('+node', answersInTime)
    return cluster
  }
  const [server] = nodes
  const client = new Redis({
    ...common,
    ...own,
    retryStrategy: pause,
    ...(mode === 'single'
      ? { host: server?.host ?? '', port: server?.port ?? 0, reconnectOnError: () => false }
      : {
          sentinels: [...nodes],
          name: group ?? '',
          sentinelRetryStrategy: pause,
          enableTLSForSentinelMode: isEncrypted,
          ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
          // Who was the first and is no longer: the sentinels know the new one.
          reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
        }),
  })
  return answersInTime(client)
}
