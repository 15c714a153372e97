import { type GrantableScope, type NamedScope, namedScopes, scopeDescriptions } from '@postern/contracts'

export type Level = 'Read' | 'Write' | 'Admin' | 'Everything'

export interface ScopeInfo {
  readonly scope: GrantableScope
  readonly title: string
  readonly level: Level
  readonly grants: string
}

const titles: Readonly<Record<NamedScope, string>> = {
  'read:universe': 'Audit universe',
  'read:findings': 'Findings',
  'write:evidence': 'Evidence',
  'write:findings': 'Findings',
  'admin:sync': 'Connectors',
}

const levels = { read: 'Read', write: 'Write', admin: 'Admin' } as const

function levelOf(scope: string): Level {
  if (scope.startsWith('read:')) return levels.read
  if (scope.startsWith('write:')) return levels.write
  return scope.startsWith('admin:') ? levels.admin : 'Everything'
}

export const namedScopeInfo: readonly ScopeInfo[] = namedScopes.map((scope) => {
  return { scope, title: titles[scope], level: levelOf(scope), grants: scopeDescriptions[scope] }
})

export const wildcardInfo: readonly ScopeInfo[] = [
  {
    scope: 'read:*',
    title: 'All reading',
    level: 'Read',
    grants: 'Read access to everything, including later additions.',
  },
  {
    scope: 'write:*',
    title: 'All writing',
    level: 'Write',
    grants: 'Write access to everything, including later additions.',
  },
  {
    scope: 'admin:*',
    title: 'All administration',
    level: 'Admin',
    grants: 'Every administrative task except managing keys.',
  },
  {
    scope: '*',
    title: 'Everything',
    level: 'Everything',
    grants: 'All of the above. A leaked key of this kind opens the whole API.',
  },
]

export function wildcardOver(granted: readonly GrantableScope[], scope: GrantableScope): GrantableScope | undefined {
  const [action = ''] = scope.split(':')
  return granted.find((each) => each !== scope && (each === '*' || each === `${action}:*`))
}

export function grants(granted: readonly GrantableScope[], needed: NamedScope): boolean {
  return granted.includes(needed) || wildcardOver(granted, needed) !== undefined
}
