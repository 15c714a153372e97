import type { MappingRule } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { datasetRules } from '../dataset/rules.ts'
import { missingColumns } from './columns.ts'
import { createMapper } from './map-row.ts'

const entities = datasetRules.auditable_entities
const mapEntity = (rules: readonly MappingRule[], values: Record<string, unknown>) =>
  createMapper(rules, entities)(values)

describe('a row of a source', () => {
  test('without a required field names the field, and keeps its key', () => {
    expect(mapEntity([], { external_id: 'A', name: '', type: 'process' })).toEqual({
      ok: false,
      key: 'A',
      faults: [{ field: 'name', code: 'missing', message: 'must be given', excerpt: null }],
    })
  })

  test('with a member `__proto__` is rejected, like a pushed one', () => {
    const row = { external_id: 'A', name: 'N', type: 'process' }
    const faults = [{ field: 'custom.__proto__', code: 'forbidden_key' }]
    expect(mapEntity([], { ...row, 'custom.__proto__': 'x' })).toMatchObject({ ok: false, key: 'A', faults })
    expect(mapEntity([], { ...row, 'custom.__proto__': '' })).toMatchObject({ ok: true })
    const custom: unknown = JSON.parse('{"__proto__":"x","tier":1}')
    expect(mapEntity([], { ...row, custom })).toMatchObject({ ok: false, key: 'A', faults })
  })

  test.each([
    ['test_procedures', { title: 'N', population_size: 5, sample_size: 6 }, 'sample_size'],
    ['test_procedures', { title: 'N', period_start: '2025-02-01', period_end: '2025-01-01' }, 'period_end'],
    [
      'test_procedures',
      { title: 'N', tester: { email: 'A@a.example' }, reviewer: { email: 'a@a.example' } },
      'reviewer',
    ],
    ['org_structure', { name: 'N', valid_from: '2025-01-01', valid_to: '2024-01-01' }, 'valid_to'],
    ['org_structure', { name: 'N', valid_from: '1899-12-31' }, 'valid_from'],
    ['auditable_entities', { name: 'N', type: 'process', last_audit_date: '1899-12-31' }, 'last_audit_date'],
  ] as const)(
    'of %s that contradicts itself, such as %j, has the same fault as a pushed one',
    (dataset, row, field) => {
      const rules = datasetRules[dataset]
      const mapped = createMapper([], rules)({ ...row, [rules.keyField]: 'A' })
      expect(mapped).toMatchObject({ ok: false, key: 'A' })
      expect(mapped.ok || mapped.faults.map((fault) => fault.field)).toEqual([field])
    },
  )

  test('with an invalid value shows at most 80 characters of it', () => {
    const type = 'x'.repeat(100)
    const mapped = mapEntity([], { external_id: 'A', name: 'N', type })
    expect(mapped).toMatchObject({ ok: false, faults: [{ field: 'type', code: 'invalid', excerpt: 'x'.repeat(80) }] })
  })

  test('shows a value that no transformation accepts, without characters that a database cannot store', () => {
    const map = createMapper(
      [{ target: 'active', source: 'flag', transforms: [{ kind: 'map', values: { Y: 'yes' } }] }],
      datasetRules.people,
    )
    const excerpt = (flag: unknown) => {
      const mapped = map({ flag })
      return mapped.ok ? expect.fail('is taken') : mapped.faults.find(({ field }) => field === 'active')?.excerpt
    }
    expect(['\0', 'a\0b', 'x'.repeat(100), '\ud800', { of: 1n }, 7n].map(excerpt)).toEqual([
      '',
      'ab',
      'x'.repeat(80),
      '\ufffd',
      '{"of":"1"}',
      '7',
    ])
  })

  test('says what to fix in our own words, whatever is wrong', () => {
    const values = {
      external_id: 'x'.repeat(256),
      name: { first: 'N' },
      type: 'nope',
      'inherent_risk.rating': 'purple',
      'inherent_risk.score': '700',
      'residual_risk.rating': 'low',
      'residual_risk.score': '1',
      'residual_risk.mood': 'good',
      audit_frequency_months: '0.5',
      last_audit_date: '2026-02-30',
      'custom.region': ['North'],
    }
    const mapped = mapEntity([], values)
    const said = mapped.ok ? [] : mapped.faults.map(({ field, message }) => `${field} ${message}`)
    expect(said.toSorted()).toEqual([
      'audit_frequency_months must be a whole number',
      'custom.region must be text or a number or true or false or null',
      'external_id must have at most 255 characters',
      'inherent_risk.rating must be one of critical, high, medium, low',
      'inherent_risk.score must be at most 100',
      'last_audit_date must be a calendar date such as 2026-11-21',
      'name must be text',
      'residual_risk must not have mood',
      expect.stringMatching(/^type must be one of legal_entity, business_unit, /),
    ])
    const person = createMapper([], datasetRules.people)({ external_id: 'p', name: 'Ada', email: 'nobody' })
    expect(person).toMatchObject({
      ok: true,
      content: { external_id: 'p', name: 'Ada' },
      warnings: [{ field: 'email', code: 'unusable_address', excerpt: 'nobody' }],
    })
  })

  test('accepts a number with more decimals than JavaScript has', () => {
    const row = { external_id: 'A', name: 'N', type: 'process', 'inherent_risk.rating': 'high' }
    expect(mapEntity([], { ...row, 'inherent_risk.score': '33.33333333333333333333' })).toMatchObject({
      content: { inherent_risk: { score: 33.333_333_333_333_336 } },
    })
  })

  test('takes fields from columns of the same name, and a number from text', () => {
    const values = {
      external_id: ' A ',
      name: 'N',
      type: 'process',
      'inherent_risk.rating': 'high',
      'inherent_risk.score': '70',
      'custom.region': 'North',
      unknown: 'is left out',
    }
    expect(mapEntity([], values)).toEqual({
      ok: true,
      key: 'A',
      parent: undefined,
      content: {
        external_id: 'A',
        name: 'N',
        type: 'process',
        status: 'active',
        inherent_risk: { rating: 'high', score: 70 },
        custom: { region: 'North' },
      },
      warnings: [],
    })
  })

  test('is mapped by rules: pointers, constants, defaults and transformations', () => {
    const rules: MappingRule[] = [
      { target: 'external_id', source: '/ids/0' },
      { target: 'name', source: 'Title', transforms: [{ kind: 'upper' }] },
      { target: 'type', source: 'kind', transforms: [{ kind: 'map', values: { D: 'department' } }] },
      { target: 'status', constant: 'draft' },
      { target: 'description', source: 'nothing', default: 'none given' },
      { target: 'last_audit_date', source: 'on', transforms: [{ kind: 'date', format: 'DD.MM.YYYY' }] },
    ]
    const values = { ids: [4711], Title: 'treasury', kind: 'D', on: '3.2.2026' }
    expect(mapEntity(rules, values)).toMatchObject({
      ok: true,
      key: '4711',
      content: { name: 'TREASURY', type: 'department', status: 'draft', last_audit_date: '2026-02-03' },
    })
    expect(mapEntity(rules, { ...values, kind: 'Z' })).toMatchObject({
      ok: false,
      key: '4711',
      faults: [{ field: 'type', excerpt: 'Z' }],
    })
  })

  test.each(['DD.MM.YYYY', 'DD/MM/YYYY', 'MM/DD/YYYY', 'YYYYMMDD', 'YYYY-MM-DD'] as const)(
    'takes the date cells of a workbook with the date format %s',
    (format) => {
      const rules: MappingRule[] = [
        ...['external_id', 'name', 'type'].map((target) => ({ target, source: target })),
        { target: 'last_audit_date', source: 'on', transforms: [{ kind: 'date', format }] },
      ]
      const mapped = (on: string) => mapEntity(rules, { external_id: '1', name: 'A', type: 'process', on })
      for (const on of ['2026-02-30', '2026-13-01', '10:30:00', '2026-03-02 early', '2.3.26']) {
        expect(mapped(on), on).toMatchObject({ ok: false, faults: [{ field: 'last_audit_date' }] })
      }
      for (const on of ['2026-03-02', '2026-03-02T10:30:00']) {
        expect(mapped(on), on).toMatchObject({ ok: true, content: { last_audit_date: '2026-03-02' } })
      }
    },
  )

  test('never uses a member of Object.prototype as a value', () => {
    const rules: MappingRule[] = [
      { target: 'external_id', source: 'id' },
      { target: 'name', source: '/constructor/name' },
      { target: 'description', source: 'toString' },
      { target: 'type', constant: 'other' },
    ]
    expect(mapEntity(rules, { id: 'A' })).toMatchObject({ ok: false, faults: [{ field: 'name', code: 'missing' }] })
  })

  test('of people has its address in lower case; a yes is a yes', () => {
    const map = createMapper([], datasetRules.people)
    expect(map({ external_id: 'p', name: 'Ada', email: 'Ada@X.example', active: 'No' })).toMatchObject({
      content: { email: 'ada@x.example', active: false },
    })
  })
})

describe('a table whose header has been changed', () => {
  const dataset = datasetRules.auditable_entities
  test('lacks required columns and those of rules, unless a rule has a default', () => {
    expect(missingColumns([], dataset, ['external_id', 'Name', 'type'])).toEqual(['name'])
    const rules = [
      { target: 'external_id', source: 'Key' },
      { target: 'name', source: 'Title' },
      { target: 'type', constant: 'process' },
      { target: 'status', source: 'State', default: 'active' },
    ]
    expect(missingColumns(rules, dataset, ['Key', 'Name'])).toEqual(['Title'])
    expect(missingColumns(rules, dataset, ['Key', 'Title'])).toEqual([])
  })
})
