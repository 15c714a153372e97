import { Cluster, Redis } from 'ioredis'
import { z } from 'zod'
import { type RedisAddress, parseRedisAddress } from './address.ts'
import { type ConnectorOptions, type RedisNode, createConnectorClass } from './guarded-connector.ts'
import { createMasterFinder } from './sentinels.ts'

export type RedisClient = Redis | Cluster

export interface RedisClientOptions {
  readonly name: string
  /** Commands reject after this time. Handshakes have longer, so that a slow Redis is not reconnected forever. */
  readonly commandTimeoutMs: number
  readonly pipelines?: boolean
}

const connectTimeoutMs = 1000
const longestPauseMs = 1000
const goodConnectionMs = 5000

/** Grows with each quick failure. */
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

/** Reconnects forever and repeats no commands. Throws for an invalid address. */
export function openRedisClient(url: string, options: RedisClientOptions): RedisClient {
  const address = readAddress(url)
  const { mode, nodes, isEncrypted } = address
  const own = { enableOfflineQueue: false, enableAutoPipelining: options.pipelines ?? false }
  const limitCommandTime = (client: Redis): Redis => {
    client.on('ready', () => (client.options.commandTimeout = options.commandTimeoutMs))
    client.on('close', () => (client.options.commandTimeout = connectTimeoutMs))
    return client
  }
  if (mode === 'cluster') {
    const cluster = new Cluster([...nodes], {
      ...own,
      redisOptions: { ...commonOptions(address, options.name), Connector: connectorOf({ isEncrypted }) },
      clusterRetryStrategy: createBackoff(),
      maxRedirections: 3,
      retryDelayOnFailover: 20,
      slotsRefreshTimeout: connectTimeoutMs,
      slotsRefreshInterval: 2000,
    })
    cluster.on('+node', limitCommandTime)
    return cluster
  }
  return limitCommandTime(requireMaster(address, new Redis({ ...serverOptions(address, options.name), ...own })))
}

/** Subscribe whenever it is `ready`. In a cluster any node will do. */
export function openRedisSubscriber(url: string, name: string): Redis {
  const address = readAddress(url)
  const own = { autoResubscribe: false, enableOfflineQueue: false }
  return requireMaster(address, new Redis({ ...serverOptions(address, name), ...own }))
}

const helloSchema = z.array(z.unknown()).transform((parts) => parts[parts.indexOf('role') + 1])

/** Sentinels may name former masters. */
function requireMaster({ mode }: RedisAddress, client: Redis): Redis {
  if (mode !== 'sentinel') return client
  client.on('ready', () => {
    client.call('HELLO', '2').then(
      (answer) => {
        if (helloSchema.safeParse(answer).data !== 'master') client.disconnect(true)
      },
      () => undefined,
    )
  })
  return client
}

function readAddress(url: string): RedisAddress {
  const address = parseRedisAddress(url)
  if (address === undefined) throw new Error('the Redis address has none of the accepted forms')
  return address
}

function connectorOf(options: Omit<ConnectorOptions, 'connectTimeoutMs'>): ReturnType<typeof createConnectorClass> {
  return createConnectorClass({ ...options, connectTimeoutMs })
}

function commonOptions({ user, password }: RedisAddress, name: string) {
  return {
    connectionName: name,
    protocol: 2,
    // The client's own check sends INFO, which component logins may not call.
    enableReadyCheck: false,
    disableClientInfo: true,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: connectTimeoutMs,
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
  } as const
}

function serverOptions(address: RedisAddress, name: string) {
  const { mode, nodes, isEncrypted } = address
  const [first = { host: '', port: 0 }] = nodes
  const common = { ...commonOptions(address, name), ...first, retryStrategy: createBackoff() }
  switch (mode) {
    case 'single':
      return { ...common, Connector: connectorOf({ isEncrypted }), reconnectOnError: () => false }
    case 'cluster':
      return { ...common, Connector: connectorOf({ isEncrypted, findNode: rotateNodes(nodes) }) }
    case 'sentinel':
      return {
        ...common,
        Connector: connectorOf({
          isEncrypted,
          findNode: createMasterFinder(address, connectTimeoutMs),
        }),
        // A former master; the Sentinels know the new one.
        reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
      }
    default:
      return mode satisfies never
  }
}

function rotateNodes(nodes: readonly RedisNode[]): () => Promise<RedisNode> {
  let next = Math.floor(Math.random() * nodes.length)
  return async () => {
    const node = nodes[next % nodes.length]
    next += 1
    if (node === undefined) throw new Error('the address of Redis names no node')
    return node
  }
}
