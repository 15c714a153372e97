export type { RedisClient, RedisClientOptions } from './client.ts'
export { openRedisClient } from './client.ts'
