/** `action:area`. They do not imply each other. */
export const namedScopes = ['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync'] as const
export type NamedScope = (typeof namedScopes)[number]

/** They never cross a tenant. */
export const wildcardScopes = ['read:*', 'write:*', 'admin:*', '*'] as const
export type WildcardScope = (typeof wildcardScopes)[number]

export const grantableScopes = [...namedScopes, ...wildcardScopes] as const
export type GrantableScope = (typeof grantableScopes)[number]

export function scopesWith(scope: GrantableScope): readonly GrantableScope[] {
  const action = scope.split(':', 1)[0]
  return grantableScopes.filter((each) => each === scope || each === '*' || each === `${action}:*`)
}

/** Keys have scopes, people have roles. */
export const roles = ['viewer', 'auditor', 'admin'] as const
export type Role = (typeof roles)[number]

/** Administrators may do everything. HOT PATH. */
export function opensRole(held: readonly string[], needed: Role): boolean {
  return held.includes(needed) || held.includes('admin')
}

/** Managing keys needs the role `admin`. */
export const roleScopes: Readonly<Record<Role, readonly GrantableScope[]>> = {
  viewer: ['read:*'],
  auditor: ['read:*', 'write:*'],
  admin: ['*'],
}

export const scopeDescriptions: Readonly<Record<NamedScope, string>> = {
  'read:universe': 'Read auditable entities, organizational hierarchies, test procedures and people.',
  'read:findings': 'Read findings, recommendations, action plans and remediation tracker logs.',
  'write:evidence': 'Upload evidence. Write only: a key cannot read uploads back.',
  'write:findings': 'Document findings, recommendations, action plans and tracker log entries, but not read them.',
  'admin:sync': 'Run and manage the connectors that keep the audit universe up to date.',
}
