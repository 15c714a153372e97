import { type GrantableScope, grantableScopes } from '@postern/contracts'
import { serializeContext } from '@postern/signed-context'
import { describe, expect, test } from 'vitest'
import { keyRecord, personPrincipal } from '../../test/builders.ts'
import { keyPrincipal } from './principal.ts'

const record = keyRecord({ scopes: ['read:*', 'write:evidence'] })
const expanded = ['read:universe', 'read:findings', 'write:evidence'] as const

const scopesOf = (scopes: GrantableScope[]) => keyPrincipal(keyRecord({ scopes })).scopes

describe('a key', () => {
  test('has the identity and rights of its record', () => {
    const { id, label, tenantId, tenantName, expiresAt } = record
    expect(keyPrincipal(record)).toEqual({
      kind: 'api_key',
      id,
      limitId: id,
      label,
      tenantId,
      tenantName,
      tenants: undefined,
      isUndecided: false,
      granted: ['read:*', 'write:evidence'],
      scopes: new Set(expanded),
      roles: [],
      masked: '•••••abcd',
      expiresAt,
      limit: 600,
      tenantLimit: 6000,
      context: serializeContext({ tenantId, kind: 'api_key', id, label, scopes: expanded, roles: [] }),
      isAddressAllowed: undefined,
      limits: undefined,
      use: undefined,
      minted: undefined,
    })
  })

  test('may be limited to networks', () => {
    const { isAddressAllowed } = keyPrincipal({ ...record, allowedAddresses: ['10.0.0.0/8'] })
    expect([isAddressAllowed?.('10.1.2.3'), isAddressAllowed?.('192.0.2.1')]).toEqual([true, false])
  })
})

describe('scopes that many keys have', () => {
  test('are stored once per list, in order', () => {
    const [one, same, other] = [
      keyPrincipal(record),
      keyPrincipal(keyRecord({ scopes: [...record.scopes] })),
      keyPrincipal(keyRecord({ scopes: record.scopes.toReversed() })),
    ]
    expect(same.scopes).toBe(one.scopes)
    expect(same.granted).toBe(one.granted)
    expect(other.granted).toEqual(['write:evidence', 'read:*'])
    expect(other.scopes).toEqual(one.scopes)
  })

  test('are stored for a limited number of lists, and are correct beyond it', () => {
    const known = keyPrincipal(record).scopes
    const lists = grantableScopes.flatMap((a) =>
      grantableScopes.flatMap((b) =>
        grantableScopes.flatMap((c) => [[a, b, c] satisfies GrantableScope[], [a, b, c, a]]),
      ),
    )
    expect(lists.length).toBeGreaterThan(1000)
    for (const scopes of lists) scopesOf(scopes)
    const last = lists.at(-1) ?? []
    expect(scopesOf(last)).not.toBe(scopesOf(last))
    expect(scopesOf(last)).toEqual(scopesOf(['*']))
    expect(keyPrincipal(record).scopes).toBe(known)
  })
})

describe('a signed-in person', () => {
  test('has the identity of the token, in its tenant, with the scopes of every role', () => {
    const tenant = keyRecord({ tenantName: 'Harbourline', tenantLimit: 9000 })
    const { tenantId } = tenant
    const token = { subject: 'ada', name: 'Ada Lund', roles: ['viewer', 'auditor'] as const, expiresAt: 9e12 }
    const scopes = ['read:universe', 'read:findings', 'write:evidence', 'write:findings'] as const
    expect(personPrincipal(token, tenant)).toEqual({
      kind: 'user',
      id: 'ada',
      limitId: 'ada',
      label: 'Ada Lund',
      tenantId,
      tenantName: 'Harbourline',
      tenants: [{ id: tenantId, name: 'Harbourline', roles: ['viewer', 'auditor'] }],
      isUndecided: false,
      granted: ['read:*', 'write:*'],
      scopes: new Set(scopes),
      roles: ['viewer', 'auditor'],
      masked: null,
      expiresAt: 9e12,
      limit: 1200,
      tenantLimit: 9000,
      context: serializeContext({
        tenantId,
        kind: 'user',
        id: 'ada',
        label: 'Ada Lund',
        scopes,
        roles: ['viewer', 'auditor'],
      }),
      isAddressAllowed: undefined,
      limits: undefined,
      use: undefined,
      minted: undefined,
    })
  })
})
