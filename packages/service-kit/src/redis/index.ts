export type { RedisClient, RedisClientOptions } from './client.ts'
export { openRedisClient, openRedisSubscriber } from './client.ts'
export { type RedisHealth, observeRedis } from './health.ts'
export { watchConnection, watchRedisClient } from './watch-client.ts'
