import { expandScopes } from '@postern/api-key'
import { type ApiKeyUsage, type NamedScope, type Route, namedScopes, routeTable } from '@postern/contracts'
import type { ScopeUse } from './store.ts'

/** Every route with its scopes, each of which suffices. A route that needs no scope, or that keys cannot call, has none. */
export const scopesOfRoutes: readonly { readonly id: string; readonly scopes: readonly NamedScope[] }[] =
  routeTable.map((route) => ({ id: route.id, scopes: scopesOf(route) }))

/** Compares what a key can call with what it called. Suggests scopes only after 30 days, and only if one was needed. */
export function rightSize(
  { scopes, countedFrom, isComplete, unneeded }: ScopeUse,
  routes: ApiKeyUsage['routes'],
): ApiKeyUsage['right_sizing'] {
  const granted = expandScopes(scopes)
  const callable = routeTable.filter((route) => isCallable(route, granted))
  const used = new Set(routes.map(({ route }) => route))
  const idle = isComplete ? namedScopes.filter((scope) => unneeded.includes(scope)) : []
  const needed = [...granted].filter((scope) => !idle.includes(scope))
  return {
    counted_from: countedFrom.toISOString(),
    complete: isComplete,
    routes_callable: callable.length,
    routes_used: callable.filter(({ id }) => used.has(id)).length,
    unneeded_scopes: idle,
    suggested_scopes: idle.length > 0 && needed.length > 0 ? needed : null,
  }
}

function isCallable(route: Route, granted: ReadonlySet<NamedScope>): boolean {
  if (route.method === 'HEAD') return false
  return route.access.kind === 'any' || scopesOf(route).some((scope) => granted.has(scope))
}

function scopesOf({ access }: Route): readonly NamedScope[] {
  switch (access.kind) {
    case 'scope':
      return [access.scope]
    case 'any-scope':
      return access.scopes
    case 'any':
    case 'person':
    case 'public':
      return []
    default:
      return access satisfies never
  }
}
