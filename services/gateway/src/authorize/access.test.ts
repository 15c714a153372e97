import { type Role, namedScopes, roleScopes, roles, routeTable } from '@postern/contracts'
import type { KeyRecord } from '@postern/contracts/internal'
import { denialOf } from '@postern/service-kit/access'
import { describe, expect, test } from 'vitest'
import { databaseStart, keyRecord, personPrincipal } from '../../test/builders.ts'
import { type Principal, keyPrincipal } from '../authenticate/principal.ts'

function key(scopes: KeyRecord['scopes']): Principal {
  return keyPrincipal(keyRecord({ scopes }))
}

function person(...held: Role[]): Principal {
  const { tenantId, tenantName, tenantVersion, tenantLimit, readAt } = keyRecord()
  return personPrincipal(
    { subject: 'someone', name: 'Someone', roles: held, expiresAt: databaseStart },
    { tenantId, tenantName, tenantStatus: 'active', tenantVersion, tenantLimit, readAt },
  )
}

function machine(...held: Role[]): Principal {
  return { ...person(...held), kind: 'machine' }
}

const scoped = routeTable.flatMap((route) =>
  route.access.kind === 'scope' ? [{ route, scope: route.access.scope }] : [],
)
const personal = routeTable.flatMap((route) =>
  route.access.kind === 'person'
    ? [{ route, role: route.access.role, acceptsMachines: route.access.acceptsMachines === true }]
    : [],
)
const scopedByOneOf = routeTable.flatMap((route) =>
  route.access.kind === 'any-scope' ? [{ route, scopes: route.access.scopes }] : [],
)
const open = routeTable.filter(({ access }) => access.kind === 'any' || access.kind === 'public')

test('a route with an unknown rule is closed to everyone', () => {
  for (const principal of [key(['*']), person('admin')]) {
    // @ts-expect-error the types refuse it too; the runtime must not rely on them
    const denial = denialOf({ ...routeTable[0], access: { kind: 'whoever' } }, principal)
    expect(denial).toEqual({ code: 'role_required', detail: 'No caller may use this operation.' })
  }
})

describe.each(scopedByOneOf)('$route.id', ({ route, scopes }) => {
  test('is denied to a key with all other scopes, and names its scopes', () => {
    const others = namedScopes.filter((other) => !scopes.includes(other))
    expect(denialOf(route, key(others))).toMatchObject({ code: 'insufficient_scope', allowed: scopes })
    expect(denialOf(route, key([]))).toMatchObject({ code: 'insufficient_scope' })
  })

  test.each(scopes)('is open to a key with only %s', (scope) => {
    expect(denialOf(route, key([scope]))).toBeUndefined()
  })
})

test.each(open)('$id is open to every authenticated caller', (route) => {
  expect([denialOf(route, key([])), denialOf(route, person())]).toEqual([undefined, undefined])
})

describe.each(scoped)('$route.id', ({ route, scope }) => {
  test('is denied to a key with all other scopes, and names its scope', () => {
    const others = namedScopes.filter((other) => other !== scope)
    expect(denialOf(route, key(others))).toMatchObject({
      code: 'insufficient_scope',
      required_scope: scope,
      granted_scopes: others,
      detail: `This operation needs the scope ${scope}. The credentials have ${others.join(', ')}.`,
    })
    expect(denialOf(route, key([]))).toMatchObject({ code: 'insufficient_scope', granted_scopes: [] })
  })

  test('is open to a key with its scope, or with a wildcard that includes it', () => {
    expect(denialOf(route, key([scope]))).toBeUndefined()
    expect(denialOf(route, key(['*']))).toBeUndefined()
  })
})

describe.each(personal)('$route.id', ({ route, role }) => {
  test('is denied to every key, even with all scopes, and to people without the role', () => {
    expect(denialOf(route, key(['*', 'admin:*']))).toMatchObject({ code: 'role_required' })
    expect(denialOf(route, person())).toMatchObject({ code: 'role_required' })
    const lesser = roles.slice(0, roles.indexOf(role))
    expect(denialOf(route, person(...lesser))).toMatchObject({ code: 'role_required' })
  })

  test('is denied to a key even if its principal had the role', () => {
    expect(denialOf(route, { ...key(['*']), roles: [role] })).toMatchObject({ code: 'role_required' })
  })

  test('is open to people with the role', () => {
    expect(denialOf(route, person(role))).toBeUndefined()
    expect(denialOf(route, person('admin'))).toBeUndefined()
  })
})

describe.each(personal.filter(({ acceptsMachines }) => acceptsMachines))('$route.id', ({ route, role }) => {
  test('is open to service accounts with the role, and to no others', () => {
    expect(denialOf(route, machine(role))).toBeUndefined()
    expect(denialOf(route, machine('admin'))).toBeUndefined()
    const lesser = roles.slice(0, roles.indexOf(role))
    for (const held of [[], lesser]) {
      expect(denialOf(route, machine(...held))).toEqual(denialOf(route, person(...held)))
      expect(denialOf(route, machine(...held))).toMatchObject({ code: 'role_required' })
    }
  })
})

describe.each(personal.filter(({ acceptsMachines }) => !acceptsMachines))('$route.id', ({ route, role }) => {
  test('is denied to service accounts with every role, and says what they may do', () => {
    const detail = 'Service accounts can only administer keys. Use an API key for data.'
    for (const held of [role, 'admin' as const]) {
      expect(denialOf(route, machine(held))).toEqual({ code: 'role_required', detail })
    }
  })
})

test('service accounts administer keys and read their audit trail, and nothing else that is for people', () => {
  const accepting = personal.filter(({ route }) => denialOf(route, machine('admin')) === undefined)
  expect(accepting.filter(({ route }) => route.upstream !== 'keys')).toEqual([])
  expect(accepting.map(({ route }) => route.id)).toEqual(expect.arrayContaining(['keys.create', 'keys.revoke']))
  expect(accepting.length).toBeLessThan(personal.length)
})

test('a person can do exactly what the scopes of their roles allow', () => {
  expect([...person('viewer').scopes]).toEqual(['read:universe', 'read:findings'])
  expect(person('viewer').granted).toEqual(roleScopes.viewer)
  expect(person().scopes.size).toBe(0)
})
