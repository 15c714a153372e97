import { Cluster } from 'ioredis'
import type { RedisClient } from './client.ts'
import { type RedisHealth, type RedisHealthOptions, silentAfterMs, watchRedis } from './health.ts'

/** Probes with PING and `write`, because a replica or a full Redis answers PING but rejects writes. */
export function watchRedisClient(
  client: RedisClient,
  { write, ...options }: Omit<RedisHealthOptions, 'probe' | 'onSilent'> & { readonly write: () => Promise<unknown> },
): RedisHealth {
  return watchConnection(client, {
    ...options,
    probe: async () => {
      await (client instanceof Cluster ? pingMasters(client) : client.ping())
      await write()
    },
  })
}

export function watchConnection(client: RedisClient, options: Omit<RedisHealthOptions, 'onSilent'>): RedisHealth {
  let readyAt = Infinity
  client.on('ready', () => (readyAt = performance.now()))
  client.on('close', () => (readyAt = Infinity))
  const health = watchRedis({
    ...options,
    onSilent: () => {
      if (performance.now() - readyAt < silentAfterMs) return
      readyAt = Infinity
      client.disconnect(true)
    },
  })
  client.on('error', health.recordError)
  return health
}

async function pingMasters(cluster: Cluster): Promise<void> {
  const masters = cluster.nodes('master')
  if (masters.length === 0) throw new Error('no node of the cluster is known')
  await Promise.all(masters.map(async (node) => await node.ping()))
}
