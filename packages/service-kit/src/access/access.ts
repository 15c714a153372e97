import { type NamedScope, type Route, opensRole } from '@postern/contracts'
import { oneScopeNeeded, roleNeeded, scopeNeeded } from '../guard.ts'

export interface Caller {
  readonly kind: 'api_key' | 'user' | 'machine'
  readonly granted: readonly string[]
  readonly scopes: ReadonlySet<NamedScope>
  readonly roles: readonly string[]
}

export interface Denial {
  readonly code: 'insufficient_scope' | 'role_required'
  readonly detail: string
  readonly required_scope?: string
  readonly granted_scopes?: readonly string[]
  readonly allowed?: readonly string[]
}

/** Returns why the caller may not call the route, or undefined if it may. HOT PATH. */
export function denialOf(route: Route, caller: Caller): Denial | undefined {
  const { access } = route
  switch (access.kind) {
    case 'public':
    case 'any':
      return undefined
    case 'scope':
      if (caller.scopes.has(access.scope)) return undefined
      return { code: 'insufficient_scope', ...scopeNeeded(access.scope, caller.granted) }
    case 'any-scope':
      for (const scope of access.scopes) if (caller.scopes.has(scope)) return undefined
      return { code: 'insufficient_scope', ...oneScopeNeeded(access.scopes, caller.granted) }
    case 'person':
      if (caller.kind === 'machine' && access.acceptsMachines !== true) {
        return { code: 'role_required', detail: 'Service accounts can only administer keys. Use an API key for data.' }
      }
      if (caller.kind !== 'api_key' && opensRole(caller.roles, access.role)) return undefined
      return { code: 'role_required', ...roleNeeded(access.role) }
    default:
      access satisfies never
      return { code: 'role_required', detail: 'No caller may use this operation.' }
  }
}
