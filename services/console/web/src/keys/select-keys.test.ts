import type { ApiKey, GrantableScope } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { attentionOf, countKeys, noFilter, selectKeys } from './select-keys.ts'

const now = Date.parse('2026-11-21T12:00:00.000Z')
const inDays = (days: number) => new Date(now + days * 86_400_000).toISOString()

function aKey(given: Partial<ApiKey> = {}): ApiKey {
  return {
    id: crypto.randomUUID(),
    label: 'Nightly export',
    note: null,
    owner: { type: 'person', id: 'ada', name: 'Ada Lund', contact: null, left_at: null },
    masked: '•••••x7Qp',
    state: 'active',
    scopes: ['read:findings'],
    allowed_addresses: [],
    created_by: { type: 'user', id: 'ada', label: 'Ada Lund' },
    created_at: inDays(-1),
    expires_at: inDays(89),
    revoked_at: null,
    revoked_by: null,
    revoke_reason: null,
    last_used_at: null,
    last_refused_at: null,
    rotated_from: null,
    pending_overlap: null,
    version: 1,
    ...given,
  }
}

const labels = (keys: readonly ApiKey[]) => keys.map(({ label }) => label)
const newest = { column: 'created_at', isDescending: true } as const

describe('a key needs attention', () => {
  test('from 14 days before its end and from 90 days of age', () => {
    expect(attentionOf(aKey({ expires_at: inDays(14.001) }), now, 90)).toEqual([])
    expect(attentionOf(aKey({ expires_at: inDays(14) }), now, 90)).toEqual(['expiring'])
    expect(attentionOf(aKey({ created_at: inDays(-90) }), now, 90)).toEqual([])
    expect(attentionOf(aKey({ created_at: inDays(-90.001) }), now, 90)).toEqual(['old'])
    expect(attentionOf(aKey({ created_at: inDays(-91), expires_at: inDays(1) }), now, 90)).toEqual(['expiring', 'old'])
  })

  test('not after a rotation, but again if its successor is revoked', () => {
    const old = aKey({ created_at: inDays(-91) })
    const successor = aKey({ id: crypto.randomUUID(), rotated_from: old.id })
    expect(countKeys([old, successor], now, 90).attention).toBe(0)
    expect(countKeys([old, { ...successor, state: 'revoked' }], now, 90).attention).toBe(1)
  })

  test('only while it is active', () => {
    for (const state of ['expired', 'revoked'] as const) {
      expect(attentionOf(aKey({ state, created_at: inDays(-400), expires_at: inDays(-1) }), now, 90)).toEqual([])
    }
  })

  test('and is counted once even for several reasons', () => {
    const keys = [aKey(), aKey({ created_at: inDays(-91), expires_at: inDays(1) }), aKey({ state: 'revoked' })]
    expect(countKeys(keys, now, 90)).toEqual({
      all: 3,
      active: 2,
      expired: 0,
      revoked: 1,
      expiring: 1,
      old: 1,
      attention: 1,
    })
  })
})

describe('the list of keys', () => {
  const keys = [
    aKey({ label: 'b', created_at: inDays(-3), last_used_at: inDays(-1) }),
    aKey({ label: 'A 10', created_at: inDays(-2), state: 'revoked', scopes: ['*'] }),
    aKey({ label: 'a 9', created_at: inDays(-1), last_used_at: inDays(-2), expires_at: inDays(2) }),
  ]

  const shown = (filter: object) => labels(selectKeys(keys, { ...noFilter, ...filter }, newest, now, 90))

  test('can be sorted by every column, words by language rules', () => {
    expect(labels(selectKeys(keys, noFilter, newest, now, 90))).toEqual(['a 9', 'A 10', 'b'])
    expect(labels(selectKeys(keys, noFilter, { column: 'label', isDescending: false }, now, 90))).toEqual([
      'a 9',
      'A 10',
      'b',
    ])
    const used = { column: 'last_used_at', isDescending: true } as const
    expect(labels(selectKeys(keys, noFilter, used, now, 90))).toEqual(['b', 'a 9', 'A 10'])
  })

  test('can be filtered by text in labels, last characters and names, by state, scope and attention', () => {
    expect(shown({ text: ' a ' })).toHaveLength(3)
    expect(shown({ text: 'A 1' })).toEqual(['A 10'])
    expect(shown({ text: 'X7q' })).toHaveLength(3)
    expect(shown({ text: 'nobody' })).toEqual([])
    expect(shown({ state: 'revoked' })).toEqual(['A 10'])
    expect(shown({ scope: '*' })).toEqual(['A 10'])
    expect(shown({ needsAttention: true })).toEqual(['a 9'])
  })

  test('filtered by a scope includes keys with a matching wildcard and no others', () => {
    const granted = ['*', 'read:*', 'read:findings', 'read:universe', 'write:*'] as const
    const each = granted.map((scope, at) => aKey({ label: scope, scopes: [scope], created_at: inDays(-at) }))
    const having = (scope: GrantableScope) => labels(selectKeys(each, { ...noFilter, scope }, newest, now, 90))
    expect(having('read:findings')).toEqual(['*', 'read:*', 'read:findings'])
    expect(having('read:*')).toEqual(['*', 'read:*'])
    expect(having('*')).toEqual(['*'])
  })
})
