import { createHash } from 'node:crypto'
import {
  type KeyRecord,
  type LeaseAnswer,
  type LeaseRequest,
  type Revocation,
  keepLogMs,
  leaseMs,
  recordTtlMs,
} from '@postern/contracts/internal'

// A model of the keys service and its database in memory: one call for each statement. The gateway is tested against it with
// random schedules, and services/keys/test/conformance.test.ts compares it with the real service.

export interface KeyRow {
  readonly hash: string
  readonly tenantId: string
  version: number
  revoked: boolean
}

interface TenantRow {
  version: number
  isSuspended: boolean
}

interface LeaseRow {
  acked: number
  /** When the waiting replica saw the last new grant, on its own clock. */
  quietSince: number
  released: boolean
  /** The end by the database's clock. Only `isInForceByWallClock` uses it. */
  until: number
}

/** A change that holds the counter's row. */
export interface OpenChange {
  readonly seq: number
  readonly entry: Revocation
  readonly write: () => void
}

/** A committed change that is not yet known to be in force. */
export interface Waiting {
  readonly entry: Revocation
  /** On the clock of the replica that waits. */
  readonly committedAt: number
}

export type ChangeKind = 'revoke' | 'narrow' | 'tenant'

export const firstMark = '0'.repeat(64)

/** Entries in one answer: few, so that a gateway that was away needs several. */
export const modelEntries = 2

export class KeysModel {
  /** A replica's monotonic clock. */
  time = 0
  #databaseStart: number
  readonly keys: readonly KeyRow[]
  readonly log: { readonly entry: Revocation; readonly committedAt: number; readonly markBefore: string }[] = []
  readonly #tenants = new Map<string, TenantRow>()
  readonly #leases = new Map<string, LeaseRow>()
  #counter = 0
  #mark = firstMark
  #open: OpenChange | undefined

  constructor(now: number, keys: readonly { readonly hash: string; readonly tenantId: string }[]) {
    this.#databaseStart = now
    this.keys = keys.map((key) => ({ ...key, version: 1, revoked: false }))
    for (const { tenantId } of keys) this.#tenants.set(tenantId, { version: 1, isSuspended: false })
  }

  get now(): number {
    return this.#databaseStart + this.time
  }

  /** Sets the database's clock forward or back. */
  step(ms: number): void {
    this.#databaseStart += ms
  }

  /** `keys.log_change`: locks the counter's row. Undefined if another change has locked it. */
  begin(kind: ChangeKind, key: KeyRow): OpenChange | undefined {
    const { hash, tenantId } = key
    if (this.#open !== undefined || (kind !== 'tenant' && key.revoked)) return undefined
    const seq = this.#counter + 1
    if (kind === 'tenant') {
      const tenant = this.#tenant(tenantId)
      const version = tenant.version + 1
      const isSuspended = !tenant.isSuspended
      this.#open = {
        seq,
        entry: { kind: 'tenant', seq, tenantId, version },
        write: () => void this.#tenants.set(tenantId, { version, isSuspended }),
      }
    } else {
      const version = key.version + 1
      const revoked = kind === 'revoke'
      this.#open = {
        seq,
        entry: { kind: 'key', seq, hash, version, revoked },
        write: () => void Object.assign(key, { version, revoked }),
      }
    }
    return this.#open
  }

  commit(): Waiting | undefined {
    const change = this.#open
    if (change === undefined) return undefined
    this.#open = undefined
    this.#counter = change.seq
    change.write()
    this.log.push({ entry: change.entry, committedAt: this.time, markBefore: this.#mark })
    this.#mark = markOf(this.#mark, change.entry)
    return { entry: change.entry, committedAt: this.time }
  }

  /** `resolveIfApplied` over `keys.read_grants`: whether every gateway with a live lease has applied the entry. */
  isInForce({ entry, committedAt }: Waiting): boolean {
    if (this.time - committedAt >= leaseMs) return true
    return [...this.#leases.values()].every((lease) => this.#hasEnded(lease) || lease.acked >= entry.seq)
  }

  /** A wrong rule, for comparison: leases end by the database's clock. */
  isInForceByWallClock({ entry }: Waiting): boolean {
    return [...this.#leases.values()].every(({ until, acked }) => until <= this.now || acked >= entry.seq)
  }

  #hasEnded({ released, quietSince }: LeaseRow): boolean {
    return released || this.time - quietSince >= leaseMs
  }

  /** When the last live lease ends, on the replica's clock. */
  lastEnd(): number {
    const live = [...this.#leases.values()].filter((lease) => !this.#hasEnded(lease))
    return Math.max(this.time, ...live.map(({ quietSince }) => quietSince + leaseMs))
  }

  /** `keys.mark_at` */
  #markAt(seq: number): string | undefined {
    return seq === this.#counter ? this.#mark : this.log.find(({ entry }) => entry.seq === seq + 1)?.markBefore
  }

  #isOther({ cursor, mark }: LeaseRequest): boolean {
    const known = cursor === null ? undefined : this.#markAt(cursor)
    return typeof mark === 'string' && known !== undefined && known !== mark
  }

  /** `keys.grant_lease`: reads now, and writes when the returned function is called. */
  checkLease(request: LeaseRequest): () => boolean {
    const { gateway, cursor } = request
    if (cursor === null || this.#isOther(request)) return () => false
    const counter = this.#counter
    const until = this.now + leaseMs
    return () => {
      const row = this.#leases.get(gateway)
      if (cursor === counter) {
        this.#leases.set(gateway, {
          acked: Math.max(row?.acked ?? 0, cursor),
          quietSince: this.time,
          released: false,
          until: Math.max(row?.until ?? 0, until),
        })
        return true
      }
      if (row !== undefined && row.acked < cursor && cursor <= counter) row.acked = cursor
      return false
    }
  }

  /** `keys.follow_log`, and what `answerLease` makes of it. */
  readLog(request: LeaseRequest, granted: boolean): LeaseAnswer {
    const { cursor } = request
    const beforeFirst = (this.log[0]?.entry.seq ?? this.#counter + 1) - 1
    const reset = cursor !== null && (cursor > this.#counter || cursor < beforeFirst || this.#isOther(request))
    const all = this.log.filter(({ entry }) => cursor === null || reset || entry.seq > cursor)
    const revocations = all.slice(0, modelEntries).map(({ entry }) => entry)
    const last = revocations.at(-1)
    const isWhole = revocations.length < modelEntries || last === undefined
    return {
      granted: granted && isWhole && !reset,
      revocations,
      cursor: isWhole ? this.#counter : last.seq,
      mark: this.#markAt(isWhole ? this.#counter : last.seq) ?? null,
      reset,
      now: Math.floor(this.now),
    }
  }

  /** `keys.release_lease` */
  release(gateway: string): void {
    const row = this.#leases.get(gateway)
    if (row !== undefined) row.released = true
  }

  /** `keys.read_grants` */
  grants(): { readonly gateway: string; readonly acked: number; readonly released: boolean }[] {
    return [...this.#leases].map(([gateway, { acked, released }]) => ({ gateway, acked, released }))
  }

  /** `createLogPruner` */
  prune(): void {
    while (this.log[0] !== undefined && this.time - this.log[0].committedAt >= keepLogMs) this.log.shift()
  }

  /** `keys.find_key_by_hash`. The label contains the versions that were read. */
  findKey(hash: string): KeyRecord | null {
    const key = this.keys.find((each) => each.hash === hash)
    if (key === undefined) return null
    const tenant = this.#tenant(key.tenantId)
    return {
      hash,
      id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be0aa',
      tenantId: key.tenantId,
      tenantName: 'Tenant',
      tenantStatus: tenant.isSuspended ? 'suspended' : 'active',
      tenantVersion: tenant.version,
      label: `${key.version} ${tenant.version}`,
      lastFour: 'abcd',
      scopes: ['read:findings'],
      allowedAddresses: [],
      expiresAt: Number.MAX_SAFE_INTEGER,
      revoked: key.revoked,
      version: key.version,
      keyLimit: 1000,
      tenantLimit: 1000,
      readAt: Math.floor(this.now),
    }
  }

  #tenant(tenantId: string): TenantRow {
    const tenant = this.#tenants.get(tenantId)
    if (tenant === undefined) throw new Error('no such tenant')
    return tenant
  }
}

/** Redis with `storeRecordScript`; `now` is its own clock. */
export class RedisModel {
  readonly #records = new Map<string, { readonly record: KeyRecord; readonly until: number }>()

  store(record: KeyRecord, now: number): void {
    const there = this.find(record.hash, now)
    if (there !== undefined && !isLater(record, there)) return
    const until = Math.min(record.readAt, now) + recordTtlMs
    // An expired record removes an older one and is not stored itself.
    if (until <= now) this.#records.delete(record.hash)
    else this.#records.set(record.hash, { record, until })
  }

  find(hash: string, now: number): KeyRecord | undefined {
    const kept = this.#records.get(hash)
    return kept !== undefined && now < kept.until ? kept.record : undefined
  }

  forget(): void {
    this.#records.clear()
  }
}

function markOf(before: string, entry: Revocation): string {
  const told =
    entry.kind === 'key' ? [entry.hash, entry.version, Number(entry.revoked)] : [entry.tenantId, entry.version, 0]
  return createHash('sha256')
    .update([before, entry.seq, entry.kind, ...told].join(' '))
    .digest('hex')
}

function isLater(given: KeyRecord, there: KeyRecord): boolean {
  if (given.version !== there.version) return given.version > there.version
  if (given.tenantVersion !== there.tenantVersion) return given.tenantVersion > there.tenantVersion
  return given.readAt > there.readAt
}
