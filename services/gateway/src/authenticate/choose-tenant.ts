import { type Role, roles, uuidSchema } from '@postern/contracts'
import { type TenantRecord, tenantSlugSchema } from '@postern/contracts/internal'
import type { Grant } from '@postern/sign-in'
import type { TenantLookup } from './tenant-lookup.ts'

export interface TenantAccess {
  readonly id: string
  readonly name: string
  readonly roles: readonly Role[]
}

export type TenantChoice =
  /** Use it before the next tick. */
  | { readonly kind: 'chosen'; readonly tenant: TenantRecord; readonly access: readonly TenantAccess[] }
  /** There are several, and the request names none. */
  | { readonly kind: 'undecided'; readonly access: readonly TenantAccess[]; readonly names: readonly string[] }
  | { readonly kind: 'not_granted'; readonly names: readonly string[] }
  /** None of the tenants exists. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unavailable' }

interface Granted extends TenantAccess {
  /** How the token names it, by id or slug. */
  readonly references: readonly string[]
}

/** Chooses the tenant of a request among those of its token. `named` is what the request asks for, and is untrusted. */
export async function chooseTenant(
  grants: readonly Grant[],
  named: string | undefined,
  tenants: Pick<TenantLookup, 'obtain'>,
): Promise<TenantChoice> {
  const [first, ...more] = grants
  if (named === undefined && first !== undefined && more.length === 0) {
    const known = await tenants.obtain(first.tenant)
    if (known.kind !== 'found') return known
    const { tenantId: id, tenantName: name } = known.tenant
    return { kind: 'chosen', tenant: known.tenant, access: [{ id, name, roles: first.roles }] }
  }
  const found = await Promise.all(grants.map(async (grant) => ({ grant, tenant: await tenants.obtain(grant.tenant) })))
  const granted = mergeGrants(
    found.flatMap(({ grant, tenant }) => (tenant.kind === 'found' ? { grant, ...tenant } : [])),
  )
  const isComplete = found.every(({ tenant }) => tenant.kind !== 'unavailable')
  const [only, ...others] = granted
  if (only === undefined) {
    return { kind: isComplete ? 'unknown' : 'unavailable' }
  }
  const chosen = named === undefined ? only : await findNamed(granted, named, tenants)
  // A tenant that cannot be looked up now could be another choice, or the one that is named.
  if (!isComplete && (named === undefined || chosen === undefined)) return { kind: 'unavailable' }
  const names = granted.flatMap(({ references }) => references[0] ?? [])
  if (chosen === undefined) return { kind: 'not_granted', names }
  const access = granted.map(({ id, name, roles: theirs }) => ({ id, name, roles: theirs }))
  if (named === undefined && others.length > 0) return { kind: 'undecided', access, names }
  // Its record may have changed while the others were looked up.
  const again = await tenants.obtain(chosen.references[0] ?? chosen.id)
  if (again.kind !== 'found' || again.tenant.tenantId !== chosen.id) return { kind: 'unavailable' }
  return { kind: 'chosen', tenant: again.tenant, access }
}

/** One entry for each tenant, although a token can name it by its id and its slug. */
function mergeGrants(found: readonly { readonly grant: Grant; readonly tenant: TenantRecord }[]): readonly Granted[] {
  const merged = new Map<string, Granted>()
  for (const { grant, tenant } of found) {
    const before = merged.get(tenant.tenantId)
    merged.set(tenant.tenantId, {
      id: tenant.tenantId,
      name: tenant.tenantName,
      roles: roles.filter((role) => grant.roles.includes(role) || before?.roles.includes(role) === true),
      references: [...(before?.references ?? []), grant.tenant],
    })
  }
  return [...merged.values()]
}

/** By id, or by slug. A text that is neither is not looked up. */
async function findNamed(
  granted: readonly Granted[],
  named: string,
  tenants: Pick<TenantLookup, 'obtain'>,
): Promise<Granted | undefined> {
  const id = uuidSchema.safeParse(named)
  if (id.success) return granted.find((each) => each.id === id.data)
  const direct = granted.find(({ references }) => references.includes(named))
  if (direct !== undefined || !tenantSlugSchema.safeParse(named).success) return direct
  const found = await tenants.obtain(named)
  return found.kind === 'found' ? granted.find((each) => each.id === found.tenant.tenantId) : undefined
}
