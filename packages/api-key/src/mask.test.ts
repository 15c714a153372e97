import { describe, expect, test } from 'vitest'

import { lastFourOf, maskKey } from './mask.ts'

describe('a masked key', () => {
  test('is five bullets and the last four characters', () => {
    expect(maskKey('wxyz')).toBe('•••••wxyz')
  })

  test('shows four characters even when a whole key is given', () => {
    expect(maskKey('postern_secretsecretsecretwxyz')).toBe('•••••wxyz')
  })

  test('is made from the last four characters of the value', () => {
    expect(lastFourOf('postern_0123wxyz')).toBe('wxyz')
  })
})
