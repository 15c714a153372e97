import type { MappingRule } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { datasetRules } from '../dataset/rules.ts'
import { createFingerprinter, createTextHasher } from './fingerprint.ts'

const print = (rules: readonly MappingRule[], values: Record<string, unknown>) =>
  createFingerprinter(rules, datasetRules.auditable_entities)(values)
const hashOf = (rules: readonly MappingRule[], values: Record<string, unknown>) => print(rules, values)?.hash

const row = { external_id: 'A', name: 'Ab', description: 'c', type: 'process' }

describe('the fingerprint of a row', () => {
  test('is undefined without a key', () => {
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
  ])('differs with %s', (_what, changed) => {
    expect(hashOf([], changed)).not.toBe(hashOf([], row))
  })

  test('changes with the mapping', () => {
    const rule = { target: 'external_id', source: 'Id' }
    const plain = [rule, { target: 'name', source: 'Name' }]
    const upper: MappingRule[] = [rule, { target: 'name', source: 'Name', transforms: [{ kind: 'upper' }] }]
    expect(hashOf(plain, { Id: 'A', Name: 'a' })).not.toBe(hashOf(upper, { Id: 'A', Name: 'a' }))
  })

  test('ignores columns that no rule reads', () => {
    expect(hashOf([], { ...row, 'last sign-in': 'today' })).toBe(hashOf([], { ...row, 'last sign-in': 'never' }))
    const values = { ...row, external_id: ' A ', parent_external_id: 'P ' }
    expect(print([], values)).toMatchObject({ key: 'A' })
  })
})

describe('the text fingerprint of a line', () => {
  const table = { columns: ['external_id', 'name', 'type'], form: 'a', isWhole: true }
  const prints = (more: Partial<typeof table> = {}, rules: readonly MappingRule[] = []) =>
    createTextHasher(rules, datasetRules.auditable_entities)({ ...table, ...more })

  test('where the table is of the same form, and mapped in the same way', () => {
    const hash = prints()?.('A,Ab,process')
    expect(prints()?.('A,Ab,process')).toBe(hash)
    expect(prints()?.('A,Ac,process')).not.toBe(hash)
    expect(prints({ form: 'b' })?.('A,Ab,process')).not.toBe(hash)
    const rules = table.columns.map((name) => ({ target: name, source: name }))
    const upper: MappingRule[] = rules.map((rule) => ({ ...rule, transforms: [{ kind: 'upper' }] }))
    expect(prints({}, rules)?.('A,Ab,process')).not.toBe(prints({}, upper)?.('A,Ab,process'))
  })

  test('is undefined if the mapping skips a column or finds no key', () => {
    expect(prints({ columns: [...table.columns, 'last sign-in'] })).toBeUndefined()
    expect(prints({ isWhole: false })).toBeUndefined()
    expect(prints({ columns: ['name', 'type'] })).toBeUndefined()
  })
})
