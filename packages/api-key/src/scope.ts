export const namedScopes = ['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync'] as const

export const wildcardScopes = ['read:*', 'write:*', 'admin:*', '*'] as const

export type NamedScope = (typeof namedScopes)[number]
export type WildcardScope = (typeof wildcardScopes)[number]

export type GrantableScope = NamedScope | WildcardScope

const coveredBy: ReadonlyMap<string, readonly string[]> = new Map(
  [...namedScopes, ...wildcardScopes].map((scope) => {
    const action = scope.split(':', 1)[0] ?? ''
    return [scope, [...new Set([scope, scope === '*' ? '*' : `${action}:*`, '*'])]]
  }),
)

const named: ReadonlySet<string> = new Set(namedScopes)

/** Unknown grants include nothing. */
export function grantsScope(granted: readonly string[], needed: NamedScope): boolean {
  return named.has(needed) && covers(granted, needed)
}

/** In the order of `namedScopes`. */
export function expandScopes(granted: readonly string[]): ReadonlySet<NamedScope> {
  return new Set(namedScopes.filter((scope) => covers(granted, scope)))
}

export function isGrantableScope(text: string): text is GrantableScope {
  return coveredBy.has(text)
}

/**
 * Whether the new scopes give no more access, now or later: only `read:*` or `*` includes `read:*`. Empty and unknown
 * lists are rejected.
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
