/** Every scope that a route can require. */
export const namedScopes = ['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync'] as const

/** Scopes that include several named ones. They are expanded for each request. */
export const wildcardScopes = ['read:*', 'write:*', 'admin:*', '*'] as const

export type NamedScope = (typeof namedScopes)[number]
export type WildcardScope = (typeof wildcardScopes)[number]

/** Scopes that a key can have. */
export type GrantableScope = NamedScope | WildcardScope

/**
 * The grants that include each scope: the scope itself, the wildcard of its action, and `*`. Anything that is not in
 * this table is denied.
 */
const coveredBy: ReadonlyMap<string, readonly string[]> = new Map(
  [...namedScopes, ...wildcardScopes].map((scope) => {
    const action = scope.split(':', 1)[0] ?? ''
    return [scope, [...new Set([scope, scope === '*' ? '*' : `${action}:*`, '*'])]]
  }),
)

const named: ReadonlySet<string> = new Set(namedScopes)

/** Whether the granted scopes include the named scope that a route requires. Unknown grants include nothing. */
export function grantsScope(granted: readonly string[], needed: NamedScope): boolean {
  return named.has(needed) && covers(granted, needed)
}

/** Returns the named scopes that the granted ones include, in the order of `namedScopes`. */
export function expandScopes(granted: readonly string[]): ReadonlySet<NamedScope> {
  return new Set(namedScopes.filter((scope) => covers(granted, scope)))
}

/** Whether a text from outside is a named scope or a known wildcard. */
export function isGrantableScope(text: string): text is GrantableScope {
  return coveredBy.has(text)
}

/**
 * Whether a key may change from the old scopes to the new ones without gaining access, now or later.
 *
 * `read:*` will also include read scopes added later, so only `read:*` or `*` includes it. Empty and unknown lists are
 * rejected.
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
