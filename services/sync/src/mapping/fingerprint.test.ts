import type { MappingRule } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { datasetRules } from '../dataset/rules.ts'
import { createFingerprinter } from './fingerprint.ts'

const print = (rules: readonly MappingRule[], values: Record<string, unknown>) =>
  createFingerprinter(rules, datasetRules.auditable_entities)(values)
const hashOf = (rules: readonly MappingRule[], values: Record<string, unknown>) =>
  print(rules, values)?.hash.toString('hex')

const row = { external_id: 'A', name: 'Ab', description: 'c', type: 'process' }

describe('a row is known again', () => {
  test('not without a key', () => {
    expect(print([], { ...row, external_id: ' ' })).toBeUndefined()
    expect(
      print([{ target: 'external_id', source: 'Id', transforms: [{ kind: 'number' }] }], { Id: 'x' }),
    ).toBeUndefined()
  })

  test.each([
    ['another value', { ...row, name: 'Ac' }],
    ['a value that has moved into the next column', { ...row, name: 'A', description: 'bc' }],
    ['a number that was text', { ...row, description: 3 }],
    ['nothing where an empty text was', { ...row, description: null }],
    ['a column more', { ...row, status: 'active' }],
  ])('not with %s', (_what, changed) => {
    expect(hashOf([], changed)).not.toBe(hashOf([], row))
  })

  test('not when it is mapped in another way', () => {
    const rule = { target: 'external_id', source: 'Id' }
    const plain = [rule, { target: 'name', source: 'Name' }]
    const upper: MappingRule[] = [rule, { target: 'name', source: 'Name', transforms: [{ kind: 'upper' }] }]
    expect(hashOf(plain, { Id: 'A', Name: 'a' })).not.toBe(hashOf(upper, { Id: 'A', Name: 'a' }))
  })

  test('whatever stands in what no rule reads', () => {
    expect(hashOf([], { ...row, 'last sign-in': 'today' })).toBe(hashOf([], { ...row, 'last sign-in': 'never' }))
    const values = { ...row, external_id: ' A ', parent_external_id: 'P ' }
    expect(print([], values)).toMatchObject({ key: 'A', also: 'P' })
  })
})
