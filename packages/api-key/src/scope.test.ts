import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import {
  type NamedScope,
  expandScopes,
  grantsScope,
  isGrantableScope,
  isNarrowerOrEqual,
  namedScopes,
  wildcardScopes,
} from './scope.ts'

// Written out by hand, so that a change of the table in the code shows here.
const matrix: readonly [grant: string, scopes: readonly NamedScope[]][] = [
  ['read:universe', ['read:universe']],
  ['read:findings', ['read:findings']],
  ['write:evidence', ['write:evidence']],
  ['write:findings', ['write:findings']],
  ['admin:sync', ['admin:sync']],
  ['read:*', ['read:universe', 'read:findings']],
  ['write:*', ['write:evidence', 'write:findings']],
  ['admin:*', ['admin:sync']],
  ['*', ['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync']],
]

const strangers = [
  '',
  ' ',
  ':',
  '**',
  '*:*',
  '*:findings',
  'read',
  'read:',
  'read: *',
  'read:**',
  'read:*:*',
  'read:f*',
  'read:finding',
  'read:findings ',
  ' read:findings',
  'READ:FINDINGS',
  'Read:*',
  'read:findings,write:findings',
  'write',
  'delete:*',
  'admin',
  'admin:keys',
  '__proto__',
  'constructor',
  'toString',
]

const anyGrant = fc.constantFrom(...namedScopes, ...wildcardScopes)
const anyGrants = fc.uniqueArray(anyGrant, { maxLength: 9 })

describe('a scope is denied', () => {
  test.each(namedScopes)('%s without any grant', (scope) => {
    expect(grantsScope([], scope)).toBe(false)
  })

  test.each(strangers)('by the unknown grant %j', (grant) => {
    for (const scope of namedScopes) expect(grantsScope([grant], scope)).toBe(false)
    expect([...expandScopes([grant])]).toEqual([])
    expect(isGrantableScope(grant)).toBe(false)
  })

  const uncovered = matrix.flatMap(([grant, covered]) =>
    namedScopes.filter((scope) => !covered.includes(scope)).map((scope) => [scope, grant] as const),
  )

  test.each(uncovered)('%s by %s, which does not cover it', (scope, grant) => {
    expect(grantsScope([grant], scope)).toBe(false)
  })

  test('in every case that the matrix does not list', () => {
    expect(uncovered).toHaveLength(5 * 4 + 3 + 3 + 4)
  })

  test('when a route requires anything except a named scope, even to a key with `*`', () => {
    for (const needed of [...strangers, ...wildcardScopes]) {
      // @ts-expect-error the types refuse it too; the runtime must not rely on them
      expect(grantsScope(['*', needed], needed)).toBe(false)
    }
  })
})

describe('a scope is granted', () => {
  test.each(matrix)('by %s to exactly what it covers', (grant, covered) => {
    expect(namedScopes.filter((scope) => grantsScope([grant], scope))).toEqual(covered)
    expect([...expandScopes([grant])]).toEqual(covered)
    expect(isGrantableScope(grant)).toBe(true)
  })

  test('exactly when it is among the expanded scopes', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(anyGrant, fc.string()), { maxLength: 9 }), (granted) => {
        const expanded = expandScopes(granted)
        for (const scope of namedScopes) expect(grantsScope(granted, scope)).toBe(expanded.has(scope))
      }),
    )
  })
})

describe('a change of scopes is rejected', () => {
  test.each([
    ['a scope that the key lacks', ['read:findings', 'write:findings'], ['read:findings']],
    ['a wildcard in place of its only scope', ['admin:*'], ['admin:sync']],
    ['a wildcard in place of all its scopes', ['read:*'], ['read:universe', 'read:findings']],
    ['everything in place of every wildcard', ['*'], ['read:*', 'write:*', 'admin:*']],
    ['everything in place of a lookalike', ['*'], ['*:*']],
    ['everything in place of an empty scope', ['*'], ['']],
    ['a wildcard of another action', ['write:*'], ['read:*']],
    ['no scopes', [], ['*']],
    ['an unknown scope, even if the key has it', ['read:secrets'], ['read:secrets', '*']],
    ['from no scopes', ['read:findings'], []],
  ])('%s', (_name, newScopes, oldScopes) => {
    expect(isNarrowerOrEqual(newScopes, oldScopes)).toBe(false)
  })
})

describe('a change of scopes is allowed', () => {
  test.each([
    ['the same', ['read:*'], ['read:*']],
    ['fewer', ['read:findings'], ['read:findings', 'write:findings']],
    ['one of a wildcard', ['read:findings'], ['read:*']],
    ['a wildcard of everything', ['admin:*', 'read:universe'], ['*']],
  ])('%s', (_name, newScopes, oldScopes) => {
    expect(isNarrowerOrEqual(newScopes, oldScopes)).toBe(true)
  })

  test('only when it grants nothing new', () => {
    fc.assert(
      fc.property(anyGrants, anyGrants, (newScopes, oldScopes) => {
        fc.pre(isNarrowerOrEqual(newScopes, oldScopes))
        const before = expandScopes(oldScopes)
        for (const scope of expandScopes(newScopes)) expect(before.has(scope)).toBe(true)
      }),
    )
  })
})
