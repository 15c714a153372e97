import { type KeyRecord, type Revocation, floorTtlMs } from '@postern/contracts/internal'
import type { Clocks, DatabaseClock } from './clocks.ts'

interface Raised {
  /** On the monotonic clock. */
  readonly at: number
  /** The highest that the database's has shown; undefined while nothing is known of it. */
  readonly databaseAt: number | undefined
}

interface KeyFloor extends Raised {
  readonly version: number
  readonly revoked: boolean
}

interface TenantFloor extends Raised {
  readonly version: number
}

/** How a record stands against what the gateway knows to have changed since. */
export type Standing = 'valid' | 'outdated' | 'revoked'

type Judged = Pick<KeyRecord, 'hash' | 'version' | 'tenantId' | 'tenantVersion'>

/** A record that is judged again and again. */
export interface JudgedEntry {
  readonly record: Judged
  /** At which of the floors' changes it was found valid last; -1 before. */
  validAt: number
}

/**
 * What has been revoked or narrowed, remembered for longer than any record from before can live in any cache. Floors only
 * rise: applying a revocation twice, late or out of order does no harm.
 */
export interface Floors {
  apply(revocation: Revocation): void
  isRevoked(hash: string): boolean
  standing(record: Judged): Standing
  /** Goes up with every revocation: a record that is valid stays so until then. */
  changes(): number
  /** Whether a tenant's record of this version has been overtaken. */
  isTenantOutdated(tenantId: string, version: number): boolean
  /** Forgets what has outlived every record it could overrule. */
  prune(): void
}

/** Starts with nothing revoked. `onChange` is called with each revocation, before it is acknowledged. */
export function createFloors(
  clocks: Clocks,
  databaseClock: Pick<DatabaseClock, 'latest' | 'highest'>,
  onChange: () => void = () => undefined,
): Floors {
  const keys = new Map<string, KeyFloor>()
  const tenants = new Map<string, TenantFloor>()
  let changes = 0

  function raisedNow(): Raised {
    return { at: clocks.monotonic(), databaseAt: databaseClock.highest() }
  }

  function applyToKey({ hash, version, revoked }: Extract<Revocation, { kind: 'key' }>): void {
    const known = keys.get(hash)
    keys.set(hash, {
      version: Math.max(version, known?.version ?? 0),
      revoked: revoked || known?.revoked === true,
      ...raisedNow(),
    })
  }

  return {
    apply: (revocation) => {
      changes += 1
      onChange()
      if (revocation.kind === 'key') {
        applyToKey(revocation)
        return
      }
      const known = tenants.get(revocation.tenantId)
      tenants.set(revocation.tenantId, {
        version: Math.max(revocation.version, known?.version ?? 0),
        ...raisedNow(),
      })
    },
    isRevoked: (hash) => keys.get(hash)?.revoked === true,
    standing: (record) => {
      const floor = keys.get(record.hash)
      if (floor?.revoked === true) return 'revoked'
      if (floor !== undefined && record.version < floor.version) return 'outdated'
      return record.tenantVersion < (tenants.get(record.tenantId)?.version ?? 0) ? 'outdated' : 'valid'
    },
    changes: () => changes,
    isTenantOutdated: (tenantId, version) => version < (tenants.get(tenantId)?.version ?? 0),
    prune: () => {
      const now = { at: clocks.monotonic(), databaseAt: databaseClock.latest() }
      pruneAmong(keys, now)
      pruneAmong(tenants, now)
    },
  }
}

/**
 * How an entry's record stands. HOT PATH: asked again only after a change, since what the floors are asked for by is far apart in
 * memory, and in no cache of the processor where keys are many. INVARIANT: to forget floors makes nothing invalid.
 */
export function standingOf(entry: JudgedEntry, floors: Pick<Floors, 'standing' | 'changes'>): Standing {
  const changes = floors.changes()
  if (entry.validAt === changes) return 'valid'
  const standing = floors.standing(entry.record)
  if (standing === 'valid') entry.validAt = changes
  return standing
}

function pruneAmong<T extends Raised>(floors: Map<string, T>, now: Raised): void {
  for (const [id, floor] of floors) {
    if (isOver(floor, now)) floors.delete(id)
    // From before the database was heard of: counted from here.
    else if (floor.databaseAt === undefined) floors.set(id, { ...floor, databaseAt: now.databaseAt })
  }
}

/**
 * INVARIANT: a record is too old by the database's clock before the floor that overrules it is forgotten. So a floor goes by
 * that clock as well, and from the highest that it has shown: a record of before it was set back is young again when it gets
 * there.
 */
function isOver(floor: Raised, now: Raised): boolean {
  if (floor.at >= now.at - floorTtlMs) return false
  if (floor.databaseAt === undefined || now.databaseAt === undefined) return floor.databaseAt === now.databaseAt
  return floor.databaseAt < now.databaseAt - floorTtlMs
}
