import type { KeyRecord } from '@postern/contracts/internal'
import { LRUCache } from 'lru-cache'
import { type Clocks, type DatabaseClock, isFresh } from './clocks.ts'
import { createSingleFlight, inTime } from './single-flight.ts'
import {
  type RevocationWatermarks,
  type JudgedEntry,
  type RecordStatus,
  recordStatus,
} from './revocation-watermarks.ts'
import type { KeysClient } from './keys-client.ts'
import type { Lease, Timers } from './lease.ts'
import { type Principal, keyPrincipal } from './principal.ts'
import type { RedisCache } from './redis-cache.ts'
import { createTtlCache } from './ttl-cache.ts'

/** A key in memory: its record as it was read, and what follows from it. */
export interface KeyEntry extends JudgedEntry {
  readonly record: KeyRecord
  readonly principal: Principal
}

/** Where an entry came from, for the metrics. */
export type LookupLevel = 'memory' | 'redis' | 'keys' | 'unknown' | 'unavailable'

export type Lookup =
  | { readonly kind: 'found'; readonly entry: KeyEntry }
  | { readonly kind: 'unknown' }
  /** The answer cannot be had now: to be refused with 503, never with 401. */
  | { readonly kind: 'unavailable' }

export interface KeyLookup {
  /**
   * The key's entry in memory, if it may be used at this moment: a lease is held, nothing newer is known, and the record
   * is not too old. HOT PATH: no I/O, no allocation.
   */
  find(hash: string): KeyEntry | undefined
  /**
   * Looks the key up beyond memory (`isSuspect`: with the little that is left for addresses of which many keys were refused), for 2.5 s at most, whatever it has to wait for; it is 'unavailable' then. What it
   * finds may be used in the same tick in which the promise resolves, and no later without asking again.
   */
  obtain(hash: string, isSuspect?: boolean): Promise<Lookup>
  /** How many keys are in memory. */
  readonly size: number
  /** Forgets everything. */
  clear(): void
}

export interface KeyLookupParts {
  readonly lease: Lease
  readonly watermarks: RevocationWatermarks
  readonly clocks: Clocks
  readonly timers: Timers
  readonly databaseClock: DatabaseClock
  readonly redis: Pick<RedisCache, 'find'>
  readonly keys: Pick<KeysClient, 'findKey'>
  readonly maxEntries: number
  readonly count: (level: Exclude<LookupLevel, 'memory'>) => void
}

/** A key that was just made is found at once: it could not be asked for before it was there. */
const unknownTtlMs = 1000
const maxUnknown = 10_000
/** Keys that were not used for long are looked at, whether they are of any use still, for each one that comes. */
const looksPerNew = 2
/** A record that is overtaken while it is being read is read again, this many times in all. */
const maxAttempts = 3

/** Makes an empty memory in front of Redis and the keys service. */
export function createKeyLookup(parts: KeyLookupParts): KeyLookup {
  const { lease, watermarks, clocks, timers, databaseClock, redis, keys, count } = parts
  const memory = new LRUCache<string, KeyEntry>({ max: parts.maxEntries })
  const unknown = createTtlCache<true>({ max: maxUnknown, ttlMs: unknownTtlMs, now: clocks.monotonic })
  const usualLookups = createSingleFlight(async (hash) => await ask(hash, false))
  const suspectLookups = createSingleFlight(async (hash) => await ask(hash, true))

  function isCurrent(record: KeyRecord, status: RecordStatus): boolean {
    return status !== 'outdated' && (record.revoked || isFresh(record.readAt, databaseClock))
  }

  function keep(record: KeyRecord): KeyEntry {
    const known = memory.peek(record.hash)
    // INVARIANT: an older record never replaces a newer one, whichever came last. Of one version both say the same, and one
    // from before the database's clock was set back is of no use.
    if (known !== undefined && isNewer(known.record, record) && !isUselessBeside(known.record, record)) return known
    if (known === undefined) forgetSome()
    const entry = { record, principal: keyPrincipal(record), validAt: -1 }
    memory.set(record.hash, entry)
    return entry
  }

  function isUselessBeside(known: KeyRecord, given: KeyRecord): boolean {
    const isSame = known.version === given.version && known.tenantVersion === given.tenantVersion
    return isSame && !isFresh(known.readAt, databaseClock)
  }

  /** What would have to be read again anyway, and was asked for longest ago: memory follows the keys that are in use. */
  function forgetSome(): void {
    for (let looks = 0; looks < looksPerNew; looks += 1) {
      const oldest = memory.rvalues().next().value
      if (oldest === undefined || isFresh(oldest.record.readAt, databaseClock)) return
      memory.pop()
    }
  }

  async function ask(hash: string, isSuspect: boolean): Promise<Lookup> {
    for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
      let answer
      try {
        answer = await keys.findKey(hash, isSuspect)
      } catch {
        count('unavailable')
        return { kind: 'unavailable' }
      }
      databaseClock.observe(answer.now, answer.sentMonotonic)
      if (answer.record === null) {
        count('unknown')
        unknown.set(hash, true)
        return { kind: 'unknown' }
      }
      if (watermarks.statusOf(answer.record) === 'outdated') continue
      count('keys')
      return { kind: 'found', entry: keep(answer.record) }
    }
    count('unavailable')
    return { kind: 'unavailable' }
  }

  async function lookUp(hash: string, isSuspect: boolean): Promise<Lookup> {
    const shared = isSuspect ? suspectLookups : usualLookups
    if (!lease.isHeld()) return await shared.shareNext(hash)
    const record = await redis.find(hash)
    if (record !== undefined && lease.isHeld() && isCurrent(record, watermarks.statusOf(record))) {
      count('redis')
      return { kind: 'found', entry: keep(record) }
    }
    return lease.isHeld() ? await shared.share(hash) : await shared.shareNext(hash)
  }

  return {
    find: (hash) => {
      if (!lease.isHeld()) return undefined
      const entry = memory.get(hash)
      if (entry === undefined) return undefined
      return isCurrent(entry.record, recordStatus(entry, watermarks)) ? entry : undefined
    },
    obtain: async (hash, isSuspect = false) => {
      if (unknown.get(hash) === true) return { kind: 'unknown' }
      return await inTime<Lookup>(lookUp(hash, isSuspect), { kind: 'unavailable' }, timers)
    },
    get size() {
      return memory.size
    },
    clear: () => {
      memory.clear()
      unknown.clear()
    },
  }
}

function isNewer(known: KeyRecord, given: KeyRecord): boolean {
  if (known.version !== given.version) return known.version > given.version
  if (known.tenantVersion !== given.tenantVersion) return known.tenantVersion > given.tenantVersion
  return known.readAt > given.readAt
}
