import type { KeyRecord } from '@postern/contracts/internal'
import { LRUCache } from 'lru-cache'
import { type Clocks, type DatabaseClock, isFresh } from './clocks.ts'
import { createSingleFlight, withDeadline } from './single-flight.ts'
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

/** A record and derived values. */
export interface KeyEntry extends JudgedEntry {
  readonly record: KeyRecord
  readonly principal: Principal
}

export type LookupLevel = 'memory' | 'redis' | 'keys' | 'unknown' | 'unavailable'

export type Lookup =
  | { readonly kind: 'found'; readonly entry: KeyEntry }
  | { readonly kind: 'unknown' }
  /** 503, never 401. */
  | { readonly kind: 'unavailable' }

export interface KeyLookup {
  /**
   * The key's entry in memory, if there is a lease, nothing newer is known, and it is fresh. HOT PATH: no I/O, no
   * allocation.
   */
  find(hash: string): KeyEntry | undefined
  /**
   * Looks the key up outside of memory; 'unavailable' after 2.5 s. Use the result before the next tick. `isSuspect`:
   * with the small capacity for addresses with many failures.
   */
  obtain(hash: string, isSuspect?: boolean): Promise<Lookup>
  readonly size: number
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

/** Unknown keys are cached for a second, which does not affect new ones. */
const unknownTtlMs = 1000
const maxUnknown = 10_000
/** Old entries checked per new one. */
const checksPerNew = 2
/** Attempts to read a record that keeps changing. */
const maxAttempts = 3

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
    // INVARIANT: an older record never replaces a newer one. Records of one version are equal, unless one is from
    // before the database's clock was set back.
    if (known !== undefined && isNewer(known.record, record) && !isStaleCopy(known.record, record)) return known
    if (known === undefined) evictSome()
    const entry = { record, principal: keyPrincipal(record), validAt: -1 }
    memory.set(record.hash, entry)
    return entry
  }

  function isStaleCopy(known: KeyRecord, given: KeyRecord): boolean {
    const isSame = known.version === given.version && known.tenantVersion === given.tenantVersion
    return isSame && !isFresh(known.readAt, databaseClock)
  }

  /** Least recently used first. */
  function evictSome(): void {
    for (let checks = 0; checks < checksPerNew; checks += 1) {
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
      return await withDeadline<Lookup>(lookUp(hash, isSuspect), { kind: 'unavailable' }, timers)
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
