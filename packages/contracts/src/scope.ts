/**
 * The five scopes that a key can hold, as `action:area`. Scopes do not imply each other: `write:findings` does not
 * read findings, `admin:sync` does not read the universe.
 */
export const namedScopes = ['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync'] as const
export type NamedScope = (typeof namedScopes)[number]

/** Wildcards a key may hold; matched when a request is made, against the named scopes only. None crosses a tenant. */
export const wildcardScopes = ['read:*', 'write:*', 'admin:*', '*'] as const
export type WildcardScope = (typeof wildcardScopes)[number]

export const grantableScopes = [...namedScopes, ...wildcardScopes] as const
export type GrantableScope = (typeof grantableScopes)[number]

/** The scopes of which each allows all that this one does: itself, and the wildcards about it. */
export function scopesWith(scope: GrantableScope): readonly GrantableScope[] {
  const action = scope.split(':', 1)[0]
  return grantableScopes.filter((each) => each === scope || each === '*' || each === `${action}:*`)
}

/** Roles of people (console). Keys have scopes, people have roles. */
export const roles = ['viewer', 'auditor', 'admin'] as const
export type Role = (typeof roles)[number]

/** Whether who holds these roles may do what is for people with that role: administrators may do it all. HOT PATH. */
export function opensRole(held: readonly string[], needed: Role): boolean {
  return held.includes(needed) || held.includes('admin')
}

/** What each role may do, in scopes. Managing keys is not a scope: it needs the role `admin` itself. */
export const roleScopes: Readonly<Record<Role, readonly GrantableScope[]>> = {
  viewer: ['read:*'],
  auditor: ['read:*', 'write:*'],
  admin: ['*'],
}

/** One sentence a scope, shown where a person chooses scopes and in the OpenAPI document. */
export const scopeDescriptions: Readonly<Record<NamedScope, string>> = {
  'read:universe': 'Read auditable entities, organizational hierarchies, test procedures and people.',
  'read:findings': 'Read findings, recommendations, action plans and remediation tracker logs.',
  'write:evidence': 'Upload evidence. Write only: nothing uploaded can be read back with a key.',
  'write:findings': 'Document findings, recommendations, action plans and tracker log entries. Does not read them.',
  'admin:sync': 'Run and manage the connectors that keep the audit universe true.',
}
