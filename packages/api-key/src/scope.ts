/** Every scope that a route can ask for. */
export const namedScopes = ['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync'] as const

/** Scopes that stand for several named ones, matched when a request is made. */
export const wildcardScopes = ['read:*', 'write:*', 'admin:*', '*'] as const

export type NamedScope = (typeof namedScopes)[number]
export type WildcardScope = (typeof wildcardScopes)[number]

/** What a key may hold. */
export type GrantableScope = NamedScope | WildcardScope

/**
 * For each scope, the grants that cover it: itself, the wildcard of its action, and `*`. Everything below reads this
 * table alone, so what it does not hold (an unknown scope, another spelling, a wildcard asked for by a route) is denied.
 */
const coveredBy: ReadonlyMap<string, readonly string[]> = new Map(
  [...namedScopes, ...wildcardScopes].map((scope) => {
    const action = scope.split(':', 1)[0] ?? ''
    return [scope, [...new Set([scope, scope === '*' ? '*' : `${action}:*`, '*'])]]
  }),
)

const named: ReadonlySet<string> = new Set(namedScopes)

/**
 * Tells whether grants cover the named scope that a route needs. No grants cover nothing, unknown grants cover nothing.
 *
 * HOT PATH: called for every request.
 */
export function grantsScope(granted: readonly string[], needed: NamedScope): boolean {
  return named.has(needed) && covers(granted, needed)
}

/** Gives the named scopes that grants stand for today, in the order of `namedScopes`. */
export function expandScopes(granted: readonly string[]): ReadonlySet<NamedScope> {
  return new Set(namedScopes.filter((scope) => covers(granted, scope)))
}

/** Tells whether a text from outside may be put into a key's scopes: exactly a named scope or a known wildcard. */
export function isGrantableScope(text: string): text is GrantableScope {
  return coveredBy.has(text)
}

/**
 * Tells whether a key may change from the old scopes to the new ones, which must not widen it, now or later.
 *
 * Single scopes never add up to a wildcard: `read:*` will also match a read scope that is added next year, so only a key
 * that holds it, or `*`, may keep it. An empty or unknown list is refused: a key always has a scope.
 */
export function isNarrowerOrEqual(newScopes: readonly string[], oldScopes: readonly string[]): boolean {
  return newScopes.length > 0 && newScopes.every((scope) => covers(oldScopes, scope))
}

function covers(granted: readonly string[], scope: string): boolean {
  const grants = coveredBy.get(scope)
  if (grants === undefined) return false
  for (const grant of granted) if (grants.includes(grant)) return true
  return false
}
