import { LRUCache } from 'lru-cache'

/** Remembers values for a while, as many as it may hold. */
export interface ShortMemory<Value extends object | boolean> {
  get(name: string): Value | undefined
  set(name: string, value: Value): void
  clear(): void
  /** Values that take up memory. */
  readonly size: number
}

/**
 * Starts empty; `now` gives milliseconds. What is over by then is let go by the first value that comes after a `ttlMs`:
 * the cache itself would keep it until it is full.
 */
export function createShortMemory<Value extends object | boolean>(options: {
  readonly max: number
  readonly ttlMs: number
  readonly now: () => number
}): ShortMemory<Value> {
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
