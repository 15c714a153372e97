import { type GrantableScope, type NamedScope, type Role, roleScopes } from '@postern/contracts'
import type { KeyRecord, TenantRecord } from '@postern/contracts/internal'
import { expandScopes, maskKey } from '@postern/api-key'
import { type MintedAssertion, serializeContext } from '@postern/signed-context'
import type { Limits } from '../limit/rate-limit.ts'
import type { Use } from '../usage.ts'
import { createAddressMatcher } from './addresses.ts'

/** Who is calling: what every later step works with, computed once for a key and kept with it. */
export interface Principal {
  readonly kind: 'api_key' | 'user'
  readonly id: string
  /** Under which id its requests are limited: a key and its successor share a limit. */
  readonly limitId: string
  readonly label: string
  readonly tenantId: string
  readonly tenantName: string
  readonly granted: readonly GrantableScope[]
  readonly scopes: ReadonlySet<NamedScope>
  readonly roles: readonly Role[]
  readonly masked: string | null
  /** Milliseconds since the epoch on the database's clock. */
  readonly expiresAt: number
  /** Requests a minute. */
  readonly limit: number
  readonly tenantLimit: number
  /** The `postern-context` header of every request that is forwarded for it. */
  readonly context: string
  /** Undefined where every address may call. */
  readonly isAddressAllowed: ((address: string) => boolean) | undefined
  /**
   * What the limits, the usage and the minter of assertions keep of it. HOT PATH: maps by principal would be looked up in every request, and with a
   * million keys the collector works on weak ones for seconds.
   */
  limits: Limits | undefined
  use: Use | undefined
  minted: MintedAssertion | undefined
}

/** Scopes as they are granted, with what follows from them: keys by the thousand have the same. */
interface Grant {
  readonly granted: readonly GrantableScope[]
  readonly scopes: ReadonlySet<NamedScope>
}

const maxGrants = 1000
const grants = new Map<string, Grant>()

function grantOf(granted: readonly GrantableScope[]): Grant {
  const name = granted.join(' ')
  const known = grants.get(name)
  if (known !== undefined) return known
  const grant = { granted, scopes: expandScopes(granted) }
  if (grants.size < maxGrants) grants.set(name, grant)
  return grant
}

const noRoles: readonly Role[] = []

/** The principal that a key's record describes. */
export function keyPrincipal(record: KeyRecord): Principal {
  const { granted, scopes } = grantOf(record.scopes)
  return {
    kind: 'api_key',
    id: record.id,
    limitId: record.limitId ?? record.id,
    label: record.label,
    tenantId: record.tenantId,
    tenantName: record.tenantName,
    granted,
    scopes,
    roles: noRoles,
    masked: maskKey(record.lastFour),
    expiresAt: record.expiresAt,
    limit: record.keyLimit,
    tenantLimit: record.tenantLimit,
    context: serializeContext({
      tenantId: record.tenantId,
      kind: 'api_key',
      id: record.id,
      label: record.label,
      scopes: [...scopes],
      roles: [],
    }),
    isAddressAllowed: record.allowedAddresses.length === 0 ? undefined : createAddressMatcher(record.allowedAddresses),
    limits: undefined,
    use: undefined,
    minted: undefined,
  }
}

/** Requests a minute of one signed-in person. */
const personLimit = 1200

/** The principal that a verified access token and its tenant's record describe. */
export function userPrincipal(
  token: {
    readonly subject: string
    readonly name: string
    readonly roles: readonly Role[]
    readonly expiresAt: number
  },
  tenant: TenantRecord,
): Principal {
  const granted = [...new Set(token.roles.flatMap((role) => roleScopes[role]))]
  const scopes = expandScopes(granted)
  return {
    kind: 'user',
    id: token.subject,
    limitId: token.subject,
    label: token.name,
    tenantId: tenant.tenantId,
    tenantName: tenant.tenantName,
    granted,
    scopes,
    roles: token.roles,
    masked: null,
    expiresAt: token.expiresAt,
    limit: personLimit,
    tenantLimit: tenant.tenantLimit,
    context: serializeContext({
      tenantId: tenant.tenantId,
      kind: 'user',
      id: token.subject,
      label: token.name,
      scopes: [...scopes],
      roles: [...token.roles],
    }),
    isAddressAllowed: undefined,
    limits: undefined,
    use: undefined,
    minted: undefined,
  }
}
