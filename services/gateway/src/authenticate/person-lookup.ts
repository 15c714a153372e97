import {
  type PersonLookup as PersonQuery,
  type PersonRecord,
  personLookupRequestSchema,
} from '@postern/contracts/internal'
import { LRUCache } from 'lru-cache'
import { type Clocks, type DatabaseClock, isFresh } from './clocks.ts'
import type { KeysClient } from './keys-client.ts'
import type { Lease, Timers } from './lease.ts'
import type { RevocationWatermarks } from './revocation-watermarks.ts'
import { createSingleFlight, withDeadline } from './single-flight.ts'
import { createTtlCache } from './ttl-cache.ts'

export type PersonFound =
  | { readonly kind: 'found'; readonly person: PersonRecord }
  /** The directory's state cannot be known, so the person is neither accepted nor refused. */
  | { readonly kind: 'unavailable' }

/** Finds what the directory of a tenant says about a person. */
export interface PersonLookup {
  /** 'unavailable' after 2.5 s. Use the result before the next tick, or check it with `isCurrent`. */
  obtain(query: PersonQuery): Promise<PersonFound>
  isCurrent(person: PersonRecord): boolean
  clear(): void
}

export interface PersonLookupParts {
  readonly lease: Pick<Lease, 'isHeld'>
  readonly watermarks: Pick<RevocationWatermarks, 'isPersonOutdated'>
  readonly clocks: Pick<Clocks, 'monotonic'>
  readonly timers: Timers
  readonly databaseClock: DatabaseClock
  readonly keys: Pick<KeysClient, 'findPerson'>
}

const maxPeople = 10_000
/** The log reports only people who were active. Access comes back after this time. */
const othersTtlMs = 1000

export function createPersonLookup(parts: PersonLookupParts): PersonLookup {
  const { lease, watermarks, clocks, timers, databaseClock, keys } = parts
  const active = new LRUCache<string, PersonRecord>({ max: maxPeople })
  const others = createTtlCache<PersonRecord>({ max: maxPeople, ttlMs: othersTtlMs, now: clocks.monotonic })
  const lookups = createSingleFlight(ask)

  function isCurrent(person: PersonRecord): boolean {
    return isFresh(person.readAt, databaseClock) && !watermarks.isPersonOutdated(person.hash, person.version)
  }

  async function ask(id: string): Promise<PersonFound> {
    let answer
    try {
      answer = await keys.findPerson(personLookupRequestSchema.parse(JSON.parse(id)))
    } catch {
      return { kind: 'unavailable' }
    }
    const { record, now, sentMonotonic } = answer
    databaseClock.observe(now, sentMonotonic)
    if (!isCurrent(record)) return { kind: 'unavailable' }
    if (record.status === 'active') active.set(id, record)
    else others.set(id, record)
    return { kind: 'found', person: record }
  }

  return {
    obtain: async ({ tenantId, attribute, name }) => {
      const id = JSON.stringify({ tenantId, attribute, name })
      const known = others.get(id) ?? (lease.isHeld() ? active.get(id) : undefined)
      if (known !== undefined && isCurrent(known)) return { kind: 'found', person: known }
      const lookup = lease.isHeld() ? lookups.share(id) : lookups.shareNext(id)
      const found = await withDeadline<PersonFound>(lookup, { kind: 'unavailable' }, timers)
      // The shared look-up may have ended before a change that was applied since.
      return found.kind === 'found' && !isCurrent(found.person) ? { kind: 'unavailable' } : found
    },
    isCurrent,
    clear: () => {
      active.clear()
      others.clear()
    },
  }
}
