import { type GrantableScope, type NamedScope, type Role, roleScopes } from '@postern/contracts'
import type { KeyRecord, TenantRecord } from '@postern/contracts/internal'
import { expandScopes, maskKey } from '@postern/api-key'
import { createAddressMatcher } from '@postern/service-kit/access'
import { type MintedAssertion, serializeContext } from '@postern/signed-context'
import type { Limits } from '../limit/rate-limit.ts'
import type { Use } from '../usage.ts'
import type { TenantAccess } from './choose-tenant.ts'

export interface Principal {
  readonly kind: 'api_key' | 'user' | 'machine'
  readonly id: string
  /** A key and its successor share one. */
  readonly limitId: string
  readonly label: string
  readonly tenantId: string
  readonly tenantName: string
  /** The hash of the person's name in the directory. */
  readonly directory: string | undefined
  /** The tenants that a person may choose; undefined for a key. */
  readonly tenants: readonly TenantAccess[] | undefined
  /** A person who has named none of several tenants may only list them. */
  readonly isUndecided: boolean
  readonly granted: readonly GrantableScope[]
  readonly scopes: ReadonlySet<NamedScope>
  readonly roles: readonly Role[]
  readonly masked: string | null
  /** Database clock (epoch ms). */
  readonly expiresAt: number
  readonly limit: number
  readonly tenantLimit: number
  readonly context: string
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
    directory: undefined,
    tenants: undefined,
    isUndecided: false,
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

const personLimit = 1200

interface Token {
  readonly subject: string
  readonly name: string
  readonly isMachine: boolean
  readonly expiresAt: number
}

/** The caller in one tenant. Created for each request, so it never serves another tenant. */
export function userPrincipal(
  token: Token,
  tenant: TenantRecord,
  access: readonly TenantAccess[],
  directory: string | undefined,
): Principal {
  const roles = access.find(({ id }) => id === tenant.tenantId)?.roles ?? noRoles
  const kind = token.isMachine ? 'machine' : 'user'
  // Service accounts administer keys. Data is for keys, whose scopes are narrower than roles.
  const granted = token.isMachine ? [] : [...new Set(roles.flatMap((role) => roleScopes[role]))]
  const scopes = expandScopes(granted)
  return {
    kind,
    id: token.subject,
    limitId: token.subject,
    label: token.name,
    tenantId: tenant.tenantId,
    tenantName: tenant.tenantName,
    directory,
    tenants: access,
    isUndecided: false,
    granted,
    scopes,
    roles,
    masked: null,
    expiresAt: token.expiresAt,
    limit: personLimit,
    tenantLimit: tenant.tenantLimit,
    context: serializeContext({
      tenantId: tenant.tenantId,
      kind,
      id: token.subject,
      label: token.name,
      scopes: [...scopes],
      roles: [...roles],
    }),
    isAddressAllowed: undefined,
    limits: undefined,
    use: undefined,
    minted: undefined,
  }
}

/** Without roles and scopes. Requests count for the first tenant. */
export function undecidedPrincipal(token: Token, access: readonly TenantAccess[]): Principal {
  const [first] = access
  if (first === undefined) throw new Error('only a person with several tenants is undecided')
  return {
    kind: token.isMachine ? 'machine' : 'user',
    id: token.subject,
    limitId: token.subject,
    label: token.name,
    tenantId: first.id,
    tenantName: first.name,
    directory: undefined,
    tenants: access,
    isUndecided: true,
    granted: [],
    scopes: new Set(),
    roles: noRoles,
    masked: null,
    expiresAt: token.expiresAt,
    limit: personLimit,
    tenantLimit: personLimit,
    context: '',
    isAddressAllowed: undefined,
    limits: undefined,
    use: undefined,
    minted: undefined,
  }
}
