import { type KeyRecord, type Revocation, floorTtlMs } from '@postern/contracts/internal'
import type { Clocks } from './clocks.ts'

interface KeyFloor {
  readonly version: number
  readonly revoked: boolean
  readonly at: number
}

interface TenantFloor {
  readonly version: number
  readonly at: number
}

/** How a record stands against what the gateway knows to have changed since. */
export type Standing = 'valid' | 'outdated' | 'revoked'

/**
 * What has been revoked or narrowed, remembered for longer than any record from before can live in any cache. Floors only
 * rise: applying a revocation twice, late or out of order does no harm.
 */
export interface Floors {
  apply(revocation: Revocation): void
  isRevoked(hash: string): boolean
  standing(record: Pick<KeyRecord, 'hash' | 'version' | 'tenantId' | 'tenantVersion'>): Standing
  /** Whether a tenant's record of this version has been overtaken. */
  isTenantOutdated(tenantId: string, version: number): boolean
  /** Forgets what has outlived every record it could overrule. */
  prune(): void
}

/** Starts with nothing revoked. */
export function createFloors(clocks: Clocks): Floors {
  const keys = new Map<string, KeyFloor>()
  const tenants = new Map<string, TenantFloor>()

  function applyToKey({ hash, version, revoked }: Extract<Revocation, { kind: 'key' }>): void {
    const known = keys.get(hash)
    keys.set(hash, {
      version: Math.max(version, known?.version ?? 0),
      revoked: revoked || known?.revoked === true,
      at: clocks.monotonic(),
    })
  }

  return {
    apply: (revocation) => {
      if (revocation.kind === 'key') {
        applyToKey(revocation)
        return
      }
      const known = tenants.get(revocation.tenantId)
      tenants.set(revocation.tenantId, {
        version: Math.max(revocation.version, known?.version ?? 0),
        at: clocks.monotonic(),
      })
    },
    isRevoked: (hash) => keys.get(hash)?.revoked === true,
    standing: (record) => {
      const floor = keys.get(record.hash)
      if (floor?.revoked === true) return 'revoked'
      if (floor !== undefined && record.version < floor.version) return 'outdated'
      return record.tenantVersion < (tenants.get(record.tenantId)?.version ?? 0) ? 'outdated' : 'valid'
    },
    isTenantOutdated: (tenantId, version) => version < (tenants.get(tenantId)?.version ?? 0),
    prune: () => {
      const limit = clocks.monotonic() - floorTtlMs
      for (const [hash, floor] of keys) if (floor.at < limit) keys.delete(hash)
      for (const [tenantId, floor] of tenants) if (floor.at < limit) tenants.delete(tenantId)
    },
  }
}
