import type { Whoami } from '@postern/contracts'
import type { Principal } from './authenticate/principal.ts'

export function whoamiOf(principal: Principal): Whoami {
  return {
    kind: principal.kind,
    id: principal.id,
    label: principal.label,
    tenant: { id: principal.tenantId, name: principal.tenantName },
    granted: [...principal.granted],
    scopes: [...principal.scopes],
    roles: [...principal.roles],
    masked: principal.masked,
    expires_at: new Date(principal.expiresAt).toISOString(),
  }
}
