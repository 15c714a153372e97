import { type GrantableScope, type NamedScope, type Role, roleScopes } from '@postern/contracts'
import type { KeyRecord, TenantRecord } from '@postern/contracts/internal'
import { expandScopes, maskKey } from '@postern/api-key'
import { type MintedAssertion, serializeContext } from '@postern/signed-context'
import type { Limits } from '../limit/rate-limit.ts'
import type { Use } from '../usage.ts'
import { createAddressMatcher } from './addresses.ts'

export interface Principal {
  readonly kind: 'api_key' | 'user'
  readonly id: string
  /** A key and its successor share one. */
  readonly limitId: string
  readonly label: string
  readonly tenantId: string
  readonly tenantName: string
  readonly granted: readonly GrantableScope[]
  readonly scopes: ReadonlySet<NamedScope>
  readonly roles: readonly Role[]
  readonly masked: string | null
  /** Database clock (epoch ms). */
  readonly expiresAt: number
  /** Requests per minute. */
  readonly limit: number
  readonly tenantLimit: number
  readonly context: string
  /** Returns undefined: every address may call. */
  readonly isAddressAllowed: ((address: string) => boolean) | undefined
  /** State of limits, usage and assertions. HOT PATH: replaces look-ups in maps for every request. */
  limits: Limits | undefined
  use: Use | undefined
  minted: MintedAssertion | undefined
}

/** Shared between keys with equal scopes. */
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

/** Requests per minute. */
const personLimit = 1200

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
