import { type KeyRecord, type Revocation, watermarkTtlMs } from '@postern/contracts/internal'
import type { Clocks, DatabaseClock } from './clocks.ts'

interface RaisedAt {
  /** On the monotonic clock. */
  readonly at: number
  /** Undefined at first. */
  readonly databaseAt: number | undefined
}

interface KeyWatermark extends RaisedAt {
  readonly version: number
  readonly revoked: boolean
}

interface TenantWatermark extends RaisedAt {
  readonly version: number
}

/** Whether a record is valid after the applied revocations and changes. */
export type RecordStatus = 'valid' | 'outdated' | 'revoked'

type VersionedRecord = Pick<KeyRecord, 'hash' | 'version' | 'tenantId' | 'tenantVersion'>

export interface JudgedEntry {
  readonly record: VersionedRecord
  /** The number of changes at which it was last valid; -1 before. */
  validAt: number
}

/**
 * The lowest valid version of each revoked or changed key and tenant. A watermark outlives every older cached record,
 * and only rises, so revocations may arrive twice, late or out of order.
 */
export interface RevocationWatermarks {
  apply(revocation: Revocation): void
  isRevoked(hash: string): boolean
  statusOf(record: VersionedRecord): RecordStatus
  /** Rises with every revocation; a valid record stays valid until then. */
  changes(): number
  /** Whether a newer version of the tenant's record is known. */
  isTenantOutdated(tenantId: string, version: number): boolean
  /** Whether the directory may have changed the person since the record was read. */
  isPersonOutdated(hash: string, version: number): boolean
  /** Deletes watermarks older than every record they could overrule. */
  prune(): void
}

/** `onChange` is called before a revocation is acknowledged. */
export function createRevocationWatermarks(
  clocks: Clocks,
  databaseClock: Pick<DatabaseClock, 'latest' | 'highest'>,
  onChange: () => void = () => undefined,
): RevocationWatermarks {
  const keys = new Map<string, KeyWatermark>()
  const tenants = new Map<string, TenantWatermark>()
  let changes = 0

  function raisedNow(): RaisedAt {
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
    statusOf: (record) => {
      const watermark = keys.get(record.hash)
      if (watermark?.revoked === true) return 'revoked'
      if (watermark !== undefined && record.version < watermark.version) return 'outdated'
      return record.tenantVersion < (tenants.get(record.tenantId)?.version ?? 0) ? 'outdated' : 'valid'
    },
    changes: () => changes,
    isTenantOutdated: (tenantId, version) => version < (tenants.get(tenantId)?.version ?? 0),
    isPersonOutdated: (hash, version) => version < (keys.get(hash)?.version ?? 0),
    prune: () => {
      const now = { at: clocks.monotonic(), databaseAt: databaseClock.latest() }
      pruneWatermarks(keys, now)
      pruneWatermarks(tenants, now)
    },
  }
}

/**
 * Returns the status of an entry's record. HOT PATH: a valid record is compared again only after a change.
 * INVARIANT: deleting watermarks makes no record invalid.
 */
export function recordStatus(
  entry: JudgedEntry,
  watermarks: Pick<RevocationWatermarks, 'statusOf' | 'changes'>,
): RecordStatus {
  const changes = watermarks.changes()
  if (entry.validAt === changes) return 'valid'
  const status = watermarks.statusOf(entry.record)
  if (status === 'valid') entry.validAt = changes
  return status
}

function pruneWatermarks<T extends RaisedAt>(watermarks: Map<string, T>, now: RaisedAt): void {
  for (const [id, watermark] of watermarks) {
    if (isObsolete(watermark, now)) watermarks.delete(id)
    // Raised before the database's clock was known, so its time counts from now.
    else if (watermark.databaseAt === undefined) watermarks.set(id, { ...watermark, databaseAt: now.databaseAt })
  }
}

/**
 * INVARIANT: a record expires by the database's clock before its watermark is deleted. Uses that clock's highest time:
 * after it is set back, old records become fresh again.
 */
function isObsolete({ at, databaseAt }: RaisedAt, now: RaisedAt): boolean {
  if (at >= now.at - watermarkTtlMs) return false
  if (databaseAt === undefined || now.databaseAt === undefined) return databaseAt === now.databaseAt
  return databaseAt < now.databaseAt - watermarkTtlMs
}
