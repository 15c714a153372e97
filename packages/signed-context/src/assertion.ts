import { timingSafeEqual } from 'node:crypto'
import { type Mac, createMac } from './hmac.ts'
import { type KeyRing, findKey } from './key-ring.ts'
import { isTenantId } from './tenant-id.ts'

/** Must be longer than a statement may run. */
export const assertionLifetimeSeconds = 60
/** The maximum of PostgreSQL, minus the tolerated clock difference. */
export const maxAssertionLifetimeSeconds = 270
/** How long an assertion is reused; at least 40 s of its lifetime remain. */
const reuseMs = 20_000
/** About 300 bytes each. */
const maxTenants = 10_000
const version = 'v1'

const assertionPattern = /^v1\.([A-Za-z0-9_-]{1,32})\.([0-9a-f-]{36})\.([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{43})$/

/** The MAC has not been verified. */
export interface AssertionClaim {
  readonly keyId: string
  readonly tenantId: string
  /** The first second (Unix time) at which the assertion is rejected. */
  readonly expiresAt: number
}

/**
 * Valid for 60 s. Throws if `tenantId` is not a lower-case UUID.
 * `v1.<key id>.<tenant>.<expiry, Unix seconds>.<HMAC-SHA-256 of everything before, URL-safe base64>`
 */
export function mintAssertion(ring: KeyRing, tenantId: string, nowMs: number): string {
  return mint(ring.current.id, createMac(ring.current.secret), tenantId, nowMs, assertionLifetimeSeconds)
}

export interface MintedAssertion {
  assertion: string
  atMs: number
}

/** The minter finds a kept assertion without a look-up. `minted` is undefined at first. */
export interface AssertionKeeper {
  readonly tenantId: string
  minted: MintedAssertion | undefined
}

/**
 * Takes a tenant's id or keeper. With `lifetimeSeconds` (at most `maxAssertionLifetimeSeconds`) it always mints a new
 * assertion.
 */
export type AssertionMinter = (tenant: string | AssertionKeeper, nowMs: number, lifetimeSeconds?: number) => string

/** Reuses an assertion for 20 s. Forgets the least recently minted of 10,000 tenants, except in keepers. */
export function createAssertionMinter(ring: KeyRing): AssertionMinter {
  const mac = createMac(ring.current.secret)
  const remembered = new Map<string, MintedAssertion>()
  return (tenant, nowMs, lifetimeSeconds) => {
    const keeper = typeof tenant === 'string' ? undefined : tenant
    const tenantId = typeof tenant === 'string' ? tenant : tenant.tenantId
    if (lifetimeSeconds !== undefined) return mint(ring.current.id, mac, tenantId, nowMs, lifetimeSeconds)
    if (isReusable(keeper?.minted, nowMs)) return keeper.minted.assertion
    // All keepers must share an assertion that another one minted.
    const known = remembered.get(tenantId)
    if (isReusable(known, nowMs)) {
      if (keeper !== undefined) keeper.minted = known
      return known.assertion
    }
    const assertion = mint(ring.current.id, mac, tenantId, nowMs, assertionLifetimeSeconds)
    const minted = known ?? keeper?.minted ?? { assertion, atMs: nowMs }
    minted.assertion = assertion
    minted.atMs = nowMs
    // The map stays in minting order.
    remembered.delete(tenantId)
    if (remembered.size >= maxTenants) for (const oldest of remembered.keys()) if (remembered.delete(oldest)) break
    remembered.set(tenantId, minted)
    if (keeper !== undefined) keeper.minted = minted
    return assertion
  }
}

// After a clock was set back, an older assertion may be too far in the future for the database.
function isReusable(minted: MintedAssertion | undefined, nowMs: number): minted is MintedAssertion {
  return minted !== undefined && nowMs >= minted.atMs && nowMs - minted.atMs < reuseMs
}

/** Returns undefined if the form is wrong. Checks neither MAC nor expiry. */
export function parseAssertion(text: string): AssertionClaim | undefined {
  const [, keyId, tenantId, expiry] = assertionPattern.exec(text) ?? []
  if (keyId === undefined || tenantId === undefined || expiry === undefined || !isTenantId(tenantId)) return undefined
  return { keyId, tenantId, expiresAt: Number(expiry) }
}

/** Returns the tenant of an assertion that PostgreSQL would accept now: the rule of `tenancy.tenant_id()`. */
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

/** Longer validity comes from a gateway with a wrong clock. */
const maxFutureSeconds = 300

function mint(keyId: string, mac: Mac, tenantId: string, nowMs: number, lifetimeSeconds: number): string {
  if (!isTenantId(tenantId)) throw new TypeError('a tenant id must be a lower-case UUID')
  if (!(lifetimeSeconds >= 1 && lifetimeSeconds <= maxAssertionLifetimeSeconds)) {
    throw new RangeError(`an assertion lives 1 to ${maxAssertionLifetimeSeconds} s`)
  }
  const payload = `${version}.${keyId}.${tenantId}.${Math.floor(nowMs / 1000) + lifetimeSeconds}`
  return `${payload}.${mac.base64url(payload)}`
}
