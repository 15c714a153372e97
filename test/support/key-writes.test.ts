import { describe, expect, test } from 'vitest'
import { type StoredKey, type StoredTenant, findWrongChanges } from './key-writes.ts'
import type { Change } from './promises.ts'

const key = { id: 'key-1', tenantId: 'tenant-1', expiresAt: 1_000_000, scopes: ['read:findings', 'write:findings'] }
const row: StoredKey = {
  tenantId: key.tenantId,
  scopes: ['write:findings', 'read:findings'],
  isRevoked: false,
  expiresAt: key.expiresAt,
  events: { created: 1 },
}
const revokedRow = { isRevoked: true, events: { created: 1, revoked: 1 } }
const narrowRow = { scopes: ['read:findings'], events: { created: 1, updated: 1 } }
const change = (kind: Change['kind'], returnedAt: number | undefined = 20): Change => ({
  kind,
  of: kind === 'revoked' || kind === 'narrowed' ? key.id : key.tenantId,
  calledAt: 10,
  returnedAt,
})

function wrong(given: Partial<StoredKey> | undefined, changes: readonly Change[], tenant?: StoredTenant): string[] {
  const keys = new Map(given === undefined ? [] : [[key.id, { ...row, ...given }] as const])
  const tenants = new Map(tenant === undefined ? [] : [[key.tenantId, tenant] as const])
  return findWrongChanges({ keys: [key], changes }, { keys, tenants })
}

describe('the checker of what was changed finds', () => {
  test('no fault if the data matches the responses', () => {
    expect(wrong({}, [])).toEqual([])
    expect(wrong(revokedRow, [change('revoked')])).toEqual([])
    expect(wrong(narrowRow, [change('narrowed')])).toEqual([])
    // A client without a response knows nothing.
    for (const given of [{}, revokedRow]) {
      expect(wrong(given, [{ ...change('revoked'), returnedAt: undefined }])).toEqual([])
    }
    for (const given of [{}, narrowRow]) {
      expect(wrong(given, [{ ...change('narrowed'), returnedAt: undefined }])).toEqual([])
    }
  })

  test.each<[string, Partial<StoredKey> | undefined, Change[]]>([
    ['was made and is not there', undefined, []],
    ['is of tenant tenant-2, made for tenant-1', { tenantId: 'tenant-2' }, []],
    ['expires at another time than was answered', { expiresAt: key.expiresAt + 1 }, []],
    ['was made once, and noted 2 times', { events: { created: 2 } }, []],
    ['was made once, and noted 0 times', { events: {} }, []],
    ['was revoked and is not', {}, [change('revoked')]],
    ['is revoked, and nobody has asked for it', revokedRow, []],
    [
      'has its revocation 2 times in the audit trail',
      { isRevoked: true, events: { created: 1, revoked: 2 } },
      [change('revoked')],
    ],
    ['has its revocation 0 times in the audit trail', { isRevoked: true }, [change('revoked')]],
    ['was narrowed and is not', { events: narrowRow.events }, [change('narrowed')]],
    [
      'was narrowed once, and noted 2 times',
      { ...narrowRow, events: { created: 1, updated: 2 } },
      [change('narrowed')],
    ],
    ['has other scopes than it was made with', narrowRow, []],
    ['has other scopes than it was made with', { scopes: ['read:findings'] }, []],
  ])('a key that %s', (what, given, changes) => {
    expect(wrong(given, changes)).toEqual([`key ${key.id} ${what}`])
  })

  test('a tenant with an unexpected status or number of changes', () => {
    const both = [change('suspended'), change('resumed')]
    expect(wrong({}, both, { status: 'active', version: 3 })).toEqual([])
    expect(wrong({}, both.slice(0, 1), { status: 'suspended', version: 2 })).toEqual([])
    expect(wrong({}, both, { status: 'suspended', version: 3 })).toEqual([
      'tenant tenant-1 was resumed and is suspended',
    ])
    for (const version of [2, 4]) {
      expect(wrong({}, both, { status: 'active', version })).toEqual([
        `tenant tenant-1 was suspended and resumed 2 times, and ${version - 1} are stored`,
      ])
    }
    expect(wrong({}, both)).toContain('tenant tenant-1 was resumed and is not there')
    expect(wrong({}, [change('suspended'), { ...change('resumed'), returnedAt: undefined }])).toEqual([])
  })
})
