import { describe, expect, test } from 'vitest'

import { lastFourOf, maskKey } from './mask.ts'

describe('a masked key', () => {
  test('is five bullets and the last four characters', () => {
    expect(maskKey('wxyz')).toBe('•••••wxyz')
  })

  test('shows only four characters of a whole key', () => {
    expect(maskKey('postern_secretsecretsecretwxyz')).toBe('•••••wxyz')
  })

  test('contains the last four characters of the key', () => {
    expect(lastFourOf('postern_0123wxyz')).toBe('wxyz')
  })
})
