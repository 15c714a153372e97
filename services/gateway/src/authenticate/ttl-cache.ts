import { LRUCache } from 'lru-cache'

export interface TtlCache<Value extends object | boolean> {
  get(name: string): Value | undefined
  set(name: string, value: Value): void
  clear(): void
  readonly size: number
}

export function createTtlCache<Value extends object | boolean>(options: {
  readonly max: number
  readonly ttlMs: number
  readonly now: () => number
}): TtlCache<Value> {
  const { max, ttlMs, now } = options
  const memory = new LRUCache<string, Value>({ max, ttl: ttlMs, ttlResolution: 0, perf: { now } })
  let purgedAt = now()
  return {
    get: (name) => memory.get(name),
    set: (name, value) => {
      if (now() - purgedAt > ttlMs) {
        purgedAt = now()
        memory.purgeStale()
      }
      memory.set(name, value)
    },
    clear: () => memory.clear(),
    get size() {
      return memory.size
    },
  }
}
