import { timingSafeEqual } from 'node:crypto'
import { type Mac, createMac } from './hmac.ts'
import { type KeyRing, findKey } from './key-ring.ts'
import { isTenantId } from './tenant-id.ts'

/** How long PostgreSQL accepts a fresh assertion: longer than a statement may run, short enough to be worth little. */
export const assertionLifetimeSeconds = 60
/** The longest life that PostgreSQL accepts, less what a clock of ours may be ahead of its own. */
export const maxAssertionLifetimeSeconds = 270
/** How long a minter hands out the same assertion; at least 40 s of its life are left to whoever gets it. */
const reuseMs = 20_000
/** Tenants a minter remembers, about 300 bytes each. */
const maxTenants = 10_000
const version = 'v1'

const assertionPattern = /^v1\.([A-Za-z0-9_-]{1,32})\.([0-9a-f-]{36})\.([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{43})$/

/** What an assertion says, before anybody has checked its MAC. */
export interface AssertionClaim {
  readonly keyId: string
  readonly tenantId: string
  /** First second (Unix time) at which it is no longer accepted. */
  readonly expiresAt: number
}

/**
 * Mints the assertion by which PostgreSQL believes that a statement may act for a tenant:
 * `v1.<key id>.<tenant>.<expiry, Unix seconds>.<HMAC-SHA-256 of all before, URL-safe base64>`, good for 60 s.
 *
 * Throws when `tenantId` is not a lower-case UUID. The nil UUID stands for the operator of the platform.
 */
export function mintAssertion(ring: KeyRing, tenantId: string, nowMs: number): string {
  return mint(ring.current.id, createMac(ring.current.secret), tenantId, nowMs, assertionLifetimeSeconds)
}

/** What a minter remembers of a tenant: one for all who keep it. */
export interface MintedAssertion {
  assertion: string
  atMs: number
}

/** Keeps at hand what one minter remembers of its tenant; nothing to begin with. */
export interface AssertionKeeper {
  readonly tenantId: string
  minted: MintedAssertion | undefined
}

/**
 * Gives the assertion of a tenant, by its id, or without a look-up by who keeps it. One that must live longer than usual says
 * for how many seconds, at most `maxAssertionLifetimeSeconds`, and is minted for itself.
 */
export type AssertionMinter = (tenant: string | AssertionKeeper, nowMs: number, lifetimeSeconds?: number) => string

/**
 * Gives a function that mints assertions and reuses the one of a tenant for 20 s.
 *
 * HOT PATH: called for every request. Remembers 10,000 tenants; beyond that the assertion minted longest ago goes first, save
 * for who keeps it.
 */
export function createAssertionMinter(ring: KeyRing): AssertionMinter {
  const mac = createMac(ring.current.secret)
  const remembered = new Map<string, MintedAssertion>()
  return (tenant, nowMs, lifetimeSeconds) => {
    const keeper = typeof tenant === 'string' ? undefined : tenant
    const tenantId = typeof tenant === 'string' ? tenant : tenant.tenantId
    if (lifetimeSeconds !== undefined) return mint(ring.current.id, mac, tenantId, nowMs, lifetimeSeconds)
    if (isReusable(keeper?.minted, nowMs)) return keeper.minted.assertion
    // Another keeper may have had it minted anew, and the map have forgotten it in between: they shall share one again.
    const known = remembered.get(tenantId)
    if (isReusable(known, nowMs)) {
      if (keeper !== undefined) keeper.minted = known
      return known.assertion
    }
    const assertion = mint(ring.current.id, mac, tenantId, nowMs, assertionLifetimeSeconds)
    const minted = known ?? keeper?.minted ?? { assertion, atMs: nowMs }
    minted.assertion = assertion
    minted.atMs = nowMs
    // Deleted first, so that the map stays in the order of minting.
    remembered.delete(tenantId)
    if (remembered.size >= maxTenants) for (const oldest of remembered.keys()) if (remembered.delete(oldest)) break
    remembered.set(tenantId, minted)
    if (keeper !== undefined) keeper.minted = minted
    return assertion
  }
}

// A clock that was set back must not leave an assertion in use that lies too far in the database's future.
function isReusable(minted: MintedAssertion | undefined, nowMs: number): minted is MintedAssertion {
  return minted !== undefined && nowMs >= minted.atMs && nowMs - minted.atMs < reuseMs
}

/** Reads what an assertion claims, or gives undefined when its form is wrong. Checks neither MAC nor expiry. */
export function parseAssertion(text: string): AssertionClaim | undefined {
  const [, keyId, tenantId, expiry] = assertionPattern.exec(text) ?? []
  if (keyId === undefined || tenantId === undefined || expiry === undefined || !isTenantId(tenantId)) return undefined
  return { keyId, tenantId, expiresAt: Number(expiry) }
}

/**
 * Gives the tenant of an assertion that PostgreSQL would accept at this moment, or undefined. The database checks for
 * itself (`tenancy.tenant_id()`); this is the same rule for those who hold the ring and have no database.
 */
export function verifyAssertion(ring: KeyRing, text: string, nowMs: number): string | undefined {
  const claim = parseAssertion(text)
  if (claim === undefined) return undefined
  const key = findKey(ring, claim.keyId)
  if (key === undefined) return undefined
  const dot = text.lastIndexOf('.')
  const expected = createMac(key.secret).base64url(text.slice(0, dot))
  if (!timingSafeEqual(Buffer.from(expected), Buffer.from(text.slice(dot + 1)))) return undefined
  const secondsLeft = claim.expiresAt - nowMs / 1000
  return secondsLeft > 0 && secondsLeft <= maxFutureSeconds ? claim.tenantId : undefined
}

/** An assertion that is good for longer was not minted by a gateway whose clock is right. */
const maxFutureSeconds = 300

function mint(keyId: string, mac: Mac, tenantId: string, nowMs: number, lifetimeSeconds: number): string {
  if (!isTenantId(tenantId)) throw new TypeError('a tenant id must be a lower-case UUID')
  if (!(lifetimeSeconds >= 1 && lifetimeSeconds <= maxAssertionLifetimeSeconds)) {
    throw new RangeError(`an assertion lives 1 to ${maxAssertionLifetimeSeconds} s`)
  }
  const payload = `${version}.${keyId}.${tenantId}.${Math.floor(nowMs / 1000) + lifetimeSeconds}`
  return `${payload}.${mac.base64url(payload)}`
}
