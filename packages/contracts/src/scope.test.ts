import { describe, expect, test } from 'vitest'

import { routeTable } from './route-table.ts'
import { grantableScopes, namedScopes, roleScopes, roles, scopeDescriptions, wildcardScopes } from './scope.ts'

describe('the scopes', () => {
  test('are the five that are published', () => {
    expect(namedScopes).toEqual(['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync'])
  })

  test('have a wildcard for each action, and one for all', () => {
    const actions = new Set(namedScopes.map((scope) => scope.replace(/:.*/, ':*')))
    expect(wildcardScopes).toEqual([...actions, '*'])
    expect(grantableScopes).toEqual([...namedScopes, ...wildcardScopes])
    expect(new Set(grantableScopes).size).toBe(grantableScopes.length)
  })

  test.each(namedScopes)('%s is required by a route and has a description', (scope) => {
    const asked = routeTable.flatMap(({ access }) => (access.kind === 'scope' ? [access.scope] : []))
    expect(asked).toContain(scope)
    expect(scopeDescriptions[scope]).toMatch(/^[A-Z].*\.$/)
  })

  test('are never required as a wildcard', () => {
    for (const { access } of routeTable) if (access.kind === 'scope') expect(namedScopes).toContain(access.scope)
    expect(routeTable.length).toBeGreaterThan(0)
  })
})

describe('a role', () => {
  test('grants the published scopes', () => {
    expect(roleScopes).toEqual({ viewer: ['read:*'], auditor: ['read:*', 'write:*'], admin: ['*'] })
    expect(Object.keys(roleScopes)).toEqual(roles)
  })
})
