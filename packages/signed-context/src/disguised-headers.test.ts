import { describe, expect, test } from 'vitest'

import { otherTenantId, read, received, verdict, withAdded, withoutHeader, write } from '../test/signed-requests.ts'

describe('a duplicate or disguised header is rejected', () => {
  const names = [
    'postern-context',
    'Postern-Assertion',
    'X-REQUEST-ID',
    'signature',
    'Signature-Input',
    'Content-Type',
    'content-length',
    'content-digest',
    'idempotency-key',
    'If-Match',
  ]

  test.each(names)('%s twice, with the same or another value, before or after', (name) => {
    const good = received(write)
    const at = good.headers.findIndex((text) => text.toLowerCase() === name.toLowerCase())
    const same = good.headers[at + 1] ?? ''
    expect(verdict(withAdded(good, name, same))).toBe('duplicate_header')
    expect(verdict(withAdded(good, name, 'x'))).toBe('duplicate_header')
    expect(verdict({ ...good, headers: [name, same, ...good.headers] })).toBe('duplicate_header')
  })

  test.each(names.filter((name) => name.includes('-')))(
    '%s with an underscore, with or without the true one',
    (name) => {
      const disguised = name.replace('-', '_')
      const good = received(write)
      expect(verdict(withAdded(good, disguised, 'x'))).toBe('ambiguous_header')
      expect(verdict(withAdded(withoutHeader(good, name.toLowerCase()), disguised, 'x'))).toBe('ambiguous_header')
    },
  )

  test.each([
    'X-Tenant-Id',
    'x_tenant_id',
    'X-TENANT',
    'tenant-id',
    'Tenant',
    'postern-tenant',
    'Postern_Scopes',
    'x-postern-context',
  ])('%s, which no signature covers', (name) => {
    expect(verdict(withAdded(received(read), name, otherTenantId))).toBe('unsigned_platform_header')
  })

  test.each(['X-My-Tenant', 'subtenant', 'my-postern-scopes', 'x-x-postern-context'])(
    'but not %s, which only contains such a name',
    (name) => {
      expect(verdict(withAdded(received(read), name, otherTenantId))).toBe('accepted')
    },
  )

  test('a name without a value', () => {
    expect(verdict(withAdded(received(read), 'x'))).toBe('malformed_headers')
  })
})
