import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { type Caller, callerKinds, noAssertion, parseContext, serializeContext } from './context.ts'
import { nilTenantId } from './tenant-id.ts'

const tenantId = '0190c0de-1111-7000-8000-00000000000a'
const caller: Caller = {
  tenantId,
  kind: 'api_key',
  id: '0190c0de-2222-7000-8000-000000000001',
  label: 'Power BI',
  scopes: ['read:findings', 'write:findings'],
  roles: [],
}
const good =
  `tenant="${tenantId}", kind=api_key, id="0190c0de-2222-7000-8000-000000000001", ` +
  'label="Power%20BI", scopes="read:findings write:findings"'

const names = fc.string({ unit: 'grapheme', maxLength: 40 })
const scopes = fc.uniqueArray(fc.constantFrom('read:universe', 'read:findings', 'write:evidence', 'admin:sync'))
const callers: fc.Arbitrary<Caller> = fc
  .record({
    tenantId: fc.uuid(),
    kind: fc.constantFrom(...callerKinds),
    id: names.filter((id) => id !== ''),
    label: names,
    scopes,
    roles: fc.uniqueArray(fc.constantFrom('viewer', 'auditor', 'admin')),
  })
  .map((any) => (any.kind === 'user' ? any : { ...any, roles: [] }))

describe('a context is rejected', () => {
  test('control: the unchanged context is parsed', () => {
    expect(parseContext(good)).toEqual(caller)
  })

  test.each([
    ['nothing', ''],
    ['a space before', ` ${good}`],
    ['a space after', `${good} `],
    ['a line feed after', `${good}\n`],
    ['no space after a comma', good.replace(', kind', ',kind')],
    ['two spaces after a comma', good.replace(', kind', ',  kind')],
    ['a member missing', good.replace(', label="Power%20BI"', '')],
    ['a member twice', `${good}, kind=operator`],
    ['a second tenant', `${good}, tenant="${nilTenantId}"`],
    ['the members in another order', good.replace(/^(tenant="[^"]*"), (kind=api_key)/, '$2, $1')],
    ['an unknown member', `${good}, admin=?1`],
    ['an unknown kind', good.replace('api_key', 'root')],
    ['a kind in upper case', good.replace('api_key', 'API_KEY')],
    ['a tenant in upper case', good.replace(tenantId, tenantId.toUpperCase())],
    ['a tenant that is no UUID', good.replace(tenantId, '-'.repeat(36))],
    ['the nil tenant for a key', good.replace(tenantId, nilTenantId)],
    ['an empty id', good.replace(/ id="[^"]*"/, ' id=""')],
    ['half an escape as the id', good.replace(/ id="[^"]*"/, ' id="%2"')],
    ['roles of a key', `${good}, roles="admin"`],
    ['empty roles of a key', `${good}, roles=""`],
    ['a person without roles', good.replace('api_key', 'user')],
    ['a wildcard', good.replace('read:findings', 'read:*')],
    ['a scope twice', good.replace('write:findings', 'read:findings')],
    ['scopes with two spaces', good.replace('read:findings write', 'read:findings  write')],
    ['scopes with a space after', good.replace('write:findings"', 'write:findings "')],
    ['a label with a raw space', good.replace('%20', ' ')],
    ['a label with a letter encoded', good.replace('Power', '%50ower')],
    ['a label with lower-case digits of an escape', good.replace('%20', '%c3%a9')],
    ['a label with half an escape', good.replace('%20BI', '%2')],
    ['a label that is not UTF-8', good.replace('%20', '%FF')],
    ['a label with an overlong slash', good.replace('%20', '%C0%AF')],
    ['a label that ends its quotes', good.replace('Power%20BI', 'x", scopes="admin:sync')],
    ['a label with a backslash', good.replace('%20', '\\"')],
    ['5,000 characters', good.replace('Power', 'P'.repeat(5000))],
  ])('with %s', (_name, text) => {
    expect(parseContext(text)).toBeUndefined()
  })

  test('when it is any other text, without throwing', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.string().map((tail) => good + tail),
        ),
        (text) => {
          fc.pre(text !== good)
          expect(parseContext(text)).toBeUndefined()
        },
      ),
    )
  })
})

describe('a context is not serialized', () => {
  const rules = {
    tenant: 'the tenant id of a caller must be a lower-case UUID',
    noTenant: 'an API key or a person belongs to a tenant',
    id: 'the id of a caller must be a well-formed text that is not empty',
    label: 'the label of a caller must be a well-formed text',
    scopes: 'the scopes of a caller must be distinct named scopes',
    roles: 'the roles of a caller must be distinct words',
    person: 'only people and machines have roles',
  } as const
  test.each<[string, Partial<Caller>, keyof typeof rules]>([
    ['for a tenant that is no UUID', { tenantId: 'harbourline' }, 'tenant'],
    ['for a key without a tenant', { tenantId: nilTenantId }, 'noTenant'],
    ['for a person without a tenant', { tenantId: nilTenantId, kind: 'user' }, 'noTenant'],
    ['without an id', { id: '' }, 'id'],
    ['with half a character in the id', { id: '\ud800' }, 'id'],
    ['with half a character in the label', { label: 'a\udc00' }, 'label'],
    ['with a wildcard', { scopes: ['*'] }, 'scopes'],
    ['with two scopes in one', { scopes: ['read:findings admin:sync'] }, 'scopes'],
    ['with a scope that ends the quotes', { scopes: ['read:findings"'] }, 'scopes'],
    ['with a scope twice', { scopes: ['read:findings', 'read:findings'] }, 'scopes'],
    ['with roles of a key', { roles: ['admin'] }, 'person'],
    ['with two roles in one', { kind: 'user', roles: ['viewer admin'] }, 'roles'],
    ['with an empty role', { kind: 'user', roles: [''] }, 'roles'],
  ])('%s', (_name, change, rule) => {
    expect(() => serializeContext({ ...caller, ...change })).toThrow(new TypeError(rules[rule]))
  })

  test('when it is too long for the header section', () => {
    const room = 4096 - serializeContext({ ...caller, label: '' }).length
    const longest = { ...caller, label: 'a'.repeat(room) }
    expect(parseContext(serializeContext(longest))).toEqual(longest)
    expect(() => serializeContext({ ...caller, label: 'a'.repeat(room + 1) })).toThrow(
      new RangeError('a context has at most 4096 characters'),
    )
  })
})

describe('a context', () => {
  test('is a dictionary with members in a fixed order', () => {
    expect(serializeContext(caller)).toBe(good)
  })

  test('of a person ends with the roles', () => {
    const person: Caller = { ...caller, kind: 'user', id: 'auth0|1', label: 'Zoë "Z"', scopes: [], roles: ['admin'] }
    expect(serializeContext(person)).toBe(
      `tenant="${tenantId}", kind=user, id="auth0%7C1", label="Zo%C3%AB%20%22Z%22", scopes="", roles="admin"`,
    )
  })

  test('of a request that acts for no tenant has the assertion `none`', () => {
    expect(noAssertion).toBe('none')
  })

  test('of an operator or a service can have no tenant', () => {
    for (const kind of ['operator', 'service'] as const) {
      const text = serializeContext({ ...caller, tenantId: nilTenantId, kind })
      expect(parseContext(text)?.tenantId).toBe(nilTenantId)
    }
  })

  test('is parsed back unchanged, for any caller', () => {
    fc.assert(
      fc.property(callers, (any) => {
        expect(parseContext(serializeContext(any))).toEqual(any)
      }),
    )
  })

  test('is printable ASCII without surrounding white space, for any caller', () => {
    fc.assert(
      fc.property(callers, (any) => {
        expect(serializeContext(any)).toMatch(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/)
      }),
    )
  })

  test('differs for different callers', () => {
    fc.assert(
      fc.property(callers, callers, (one, two) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(two))
        expect(serializeContext(one)).not.toBe(serializeContext(two))
      }),
    )
  })
})
