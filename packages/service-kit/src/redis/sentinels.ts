import { Redis } from 'ioredis'
import { z } from 'zod'
import type { RedisAddress } from './address.ts'
import { type RedisNode, createConnectorClass } from './guarded-connector.ts'

const masterSchema = z.tuple([z.string().min(1), z.coerce.number().int().min(1).max(65_535)])

/** Rejects if no sentinel knows the master. */
export function createMasterFinder(
  { nodes, group, sentinelPassword, isEncrypted }: RedisAddress,
  timeoutMs: number,
): () => Promise<RedisNode> {
  return async () => {
    let cause: unknown
    for (const node of nodes) {
      const sentinel = new Redis({
        ...node,
        ...(sentinelPassword === undefined ? {} : { password: sentinelPassword }),
        Connector: createConnectorClass({ isEncrypted, connectTimeoutMs: timeoutMs }),
        lazyConnect: true,
        protocol: 2,
        enableReadyCheck: false,
        disableClientInfo: true,
        retryStrategy: null,
        commandTimeout: timeoutMs,
      })
      sentinel.on('error', (error: unknown) => (cause = error))
      try {
        await sentinel.connect()
        const answer: unknown = await sentinel.call('SENTINEL', 'get-master-addr-by-name', group ?? '')
        const [host, port] = masterSchema.parse(answer)
        return { host, port }
      } catch (error) {
        cause ??= error
      } finally {
        sentinel.disconnect()
      }
    }
    throw new Error('No sentinel names a master.', { cause })
  }
}
