import { type Route, opensRole } from '@postern/contracts'
import { oneScopeNeeded, roleNeeded, scopeNeeded } from '@postern/service-kit'
import type { Principal } from '../authenticate/principal.ts'

export interface Denial {
  readonly code: 'insufficient_scope' | 'role_required'
  readonly detail: string
  readonly required_scope?: string
  readonly granted_scopes?: readonly string[]
  readonly allowed?: readonly string[]
}

/** Undefined if the principal may call the route. HOT PATH. */
export function denialOf(route: Route, principal: Principal): Denial | undefined {
  const { access } = route
  switch (access.kind) {
    case 'public':
    case 'any':
      return undefined
    case 'scope':
      if (principal.scopes.has(access.scope)) return undefined
      return { code: 'insufficient_scope', ...scopeNeeded(access.scope, principal.granted) }
    case 'any-scope':
      for (const scope of access.scopes) if (principal.scopes.has(scope)) return undefined
      return { code: 'insufficient_scope', ...oneScopeNeeded(access.scopes, principal.granted) }
    case 'person':
      if (principal.kind === 'user' && opensRole(principal.roles, access.role)) return undefined
      return { code: 'role_required', ...roleNeeded(access.role) }
    default:
      access satisfies never
      return { code: 'role_required', detail: 'No caller may use this operation.' }
  }
}
