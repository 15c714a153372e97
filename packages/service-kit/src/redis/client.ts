import { Cluster, Redis } from 'ioredis'
import { z } from 'zod'
import { type RedisAddress, parseRedisAddress } from './address.ts'
import { type ConnectorOptions, type RedisNode, createConnectorClass } from './guarded-connector.ts'
import { createMasterFinder } from './sentinels.ts'

/** The same commands, whether one server answers or the nodes of a cluster. */
export type RedisClient = Redis | Cluster

export interface RedisClientOptions {
  /** Shown in CLIENT LIST. */
  readonly name: string
  /**
   * A command that has no answer in this time rejects. The handshake of a connection has longer: otherwise a Redis that is slow for
   * a while would be connected to again and again, and never be used again.
   */
  readonly commandTimeoutMs: number
  /** Puts what is asked in one turn of the event loop into one write. */
  readonly pipelines?: boolean
}

const connectTimeoutMs = 1000
const longestPauseMs = 1000
/** A connection that lasted this long was a good one: the next attempt follows at once. */
const goodConnectionMs = 5000

/** Gives the pause before the next attempt to connect, in milliseconds; it grows with each attempt that soon failed. */
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
 * Opens a connection that is tried again for ever, to Redis at an address of `settings.redisUrl`. Nothing is repeated: what fails
 * rejects, so that no request waits for a Redis that is away. Throws for an address that has none of the known forms.
 */
export function openRedisClient(url: string, options: RedisClientOptions): RedisClient {
  const address = readAddress(url)
  const { mode, nodes, isEncrypted } = address
  const own = { enableOfflineQueue: false, enableAutoPipelining: options.pipelines ?? false }
  // Each command is given the time that stands here when it is sent.
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
      // A node says where a slot is now; after one that is gone its slots are asked for again, soon.
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
 * Opens a connection for a subscription, which is not renewed by itself: subscribe whenever it is `ready`. Of a cluster each node
 * hears what is published at any of them; the next one that the address names is tried after one that fails.
 */
export function openRedisSubscriber(url: string, name: string): Redis {
  const address = readAddress(url)
  const own = { autoResubscribe: false, enableOfflineQueue: false }
  return requireMaster(address, new Redis({ ...serverOptions(address, name), ...own }))
}

const helloSchema = z.array(z.unknown()).transform((parts) => parts[parts.indexOf('role') + 1])

/** A sentinel may name a server that is a master no longer: such a connection is closed, and the sentinels are asked again. */
function requireMaster({ mode }: RedisAddress, client: Redis): Redis {
  if (mode !== 'sentinel') return client
  client.on('ready', () => {
    client.call('HELLO', '2').then(
      (answer) => {
        if (helloSchema.safeParse(answer).data !== 'master') client.disconnect(true)
      },
      // The connection has ended, or is silent: both are noticed elsewhere.
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
    // Of RESP3 nothing is needed, and what a connection may receive is easier to check without it.
    protocol: 2,
    // INFO, which the client's own check sends, is more than the user of a component may ask. While Redis loads its data PING fails.
    enableReadyCheck: false,
    disableClientInfo: true,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: connectTimeoutMs,
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
  } as const
}

/** For one server: that of the address, the master that the sentinels name, or any node of the cluster. */
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
        // Who was the master and is no longer: the sentinels know the new one.
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
