import type { MappingRule } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { datasetRules } from '../dataset/rules.ts'
import { missingColumns } from './columns.ts'
import { createMapper, unknownTargets } from './map-row.ts'

const entities = datasetRules.auditable_entities
const mapEntity = (rules: readonly MappingRule[], values: Record<string, unknown>) =>
  createMapper(rules, entities)(values)

describe('a row of a source', () => {
  test('that lacks what must be there says which field, and keeps its key', () => {
    expect(mapEntity([], { external_id: 'A', name: '', type: 'process' })).toEqual({
      ok: false,
      key: 'A',
      faults: [{ field: 'name', code: 'missing', message: 'must be given', excerpt: null }],
    })
  })

  test('with a value that cannot be taken says what stood there, and no more than 80 characters of it', () => {
    const type = 'x'.repeat(100)
    const mapped = mapEntity([], { external_id: 'A', name: 'N', type })
    expect(mapped).toMatchObject({ ok: false, faults: [{ field: 'type', code: 'invalid', excerpt: 'x'.repeat(80) }] })
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

  test('never takes a member that every object has for a value', () => {
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

  test('is not mapped to what the dataset does not have', () => {
    expect(
      unknownTargets(
        [
          { target: 'salary', source: 'x' },
          { target: 'name', source: 'y' },
        ],
        entities,
      ),
    ).toEqual([0])
  })
})

describe('a table whose header has been changed', () => {
  const dataset = datasetRules.auditable_entities
  test('lacks what must be given, or what a rule names, unless there is something to take instead', () => {
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
