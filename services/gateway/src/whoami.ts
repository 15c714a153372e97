import type { Whoami } from '@postern/contracts'
import type { Principal } from './authenticate/principal.ts'

export function whoamiOf(principal: Principal): Whoami {
  const own = { id: principal.tenantId, name: principal.tenantName }
  const { tenants = [{ ...own, roles: principal.roles }] } = principal
  return {
    kind: principal.kind,
    id: principal.id,
    label: principal.label,
    tenant: principal.isUndecided ? null : own,
    tenants: tenants.map(({ id, name, roles }) => ({ id, name, roles: [...roles] })),
    granted: [...principal.granted],
    scopes: [...principal.scopes],
    roles: [...principal.roles],
    masked: principal.masked,
    expires_at: new Date(principal.expiresAt).toISOString(),
  }
}
