import { describe, expect, test } from 'vitest'
import { withUsableAddresses } from './warnings.ts'

const fieldsOf = (row: Record<string, unknown>) => withUsableAddresses(row).warnings.map(({ field }) => field)

describe('a row', () => {
  test('with usable addresses is returned unchanged', () => {
    const row = { email: 'ada@x.example', owner: { email: 'bo@x.example' }, custom: { email: 'n/a' } }
    expect(withUsableAddresses(row)).toEqual({ row, warnings: [] })
    expect(withUsableAddresses(row).row).toBe(row)
  })

  test.each([false, 7, ['ada@x.example'], {}])('loses an address that is not a text, with a warning (%j)', (email) => {
    expect(withUsableAddresses({ name: 'N', email }).row).toEqual({ name: 'N' })
    expect(withUsableAddresses({ owner: { name: 'N', email } }).row).toEqual({ owner: { name: 'N' } })
    expect(fieldsOf({ email, owner: { email } })).toEqual(['owner.email', 'email'])
  })

  test('has no person if the source has only a null address for it', () => {
    expect(withUsableAddresses({ name: 'N', owner: { email: null }, head: { email: null, name: 'H' } })).toEqual({
      row: { name: 'N', head: { name: 'H' } },
      warnings: [],
    })
  })

  test('takes an unusable address as the name, on one line, unless it is too long', () => {
    expect(withUsableAddresses({ owner: { email: 'Ada\nLund' } }).row).toEqual({ owner: { name: 'Ada Lund' } })
    expect(withUsableAddresses({ owner: { email: 'x'.repeat(256) } }).row).toEqual({})
  })

  test('keeps a named tester beside a reviewer with the same text for an address', () => {
    expect(withUsableAddresses({ tester: { name: 'Ada' }, reviewer: { email: 'Ada' } }).row).toEqual({
      tester: { name: 'Ada' },
    })
    expect(withUsableAddresses({ tester: { email: 'Ada' }, reviewer: { name: 'Ada' } }).row).toEqual({
      reviewer: { name: 'Ada' },
    })
  })
})
