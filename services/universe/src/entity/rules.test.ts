import { describe, expect, test } from 'vitest'
import { type StoredEntity, addMonths, asRead, entityTag } from './rules.ts'

const stored: StoredEntity = {
  id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be0e1',
  reference: 'AE-0001',
  external_id: 'SAP-1',
  name: 'Payments',
  description: null,
  type: 'process',
  status: 'active',
  parent_id: null,
  owner: null,
  audit_lead: null,
  executive: null,
  inherent_risk: null,
  residual_risk: null,
  risk_assessed_at: '2025-11-21',
  audit_frequency_months: 12,
  last_audit_date: '2026-01-31',
  last_audit_opinion: null,
  regulatory_next_due: null,
  next_audit_due: '2027-01-31',
  custom: {},
  source: null,
  created_by: { type: 'connector', id: 'c', label: 'l' },
  created_at: '2026-03-01T09:00:00.000Z',
  updated_at: '2026-03-01T09:00:00.000Z',
  version: 1,
}

const seen = (last_seen_at: string) => ({
  version: 1,
  source: { connector_id: 'c', source_key: 'k', first_seen_at: last_seen_at, last_seen_at, missing_since: null },
})

describe('an entity as it is read', () => {
  test('is stale when its risk was never assessed, or more than twelve months ago', () => {
    expect(asRead({ ...stored, risk_assessed_at: null }, '2026-01-01').stale).toBe(true)
    expect(asRead(stored, '2026-11-21').stale).toBe(false)
    expect(asRead(stored, '2026-11-22').stale).toBe(true)
  })

  test('has another entity tag on another day and in another version', () => {
    const other = { version: 2, source: null }
    const tags = [entityTag(stored, '2026-03-01'), entityTag(stored, '2026-03-02'), entityTag(other, '2026-03-01')]
    expect(new Set(tags).size).toBe(3)
  })

  test('has another entity tag once its source was read again', () => {
    const [one, other] = [seen('2026-03-01T10:00:00.000Z'), seen('2026-03-01T10:00:00.001Z')]
    expect(entityTag(one, '2026-03-01')).not.toBe(entityTag(other, '2026-03-01'))
  })
})

describe('months later', () => {
  test.each([
    ['2026-01-31', 1, '2026-02-28'],
    ['2028-01-31', 1, '2028-02-29'],
    ['2028-02-29', 12, '2029-02-28'],
    ['2026-12-15', 1, '2027-01-15'],
    ['2026-10-31', 14, '2027-12-31'],
    ['9999-06-01', 12, '9999-12-31'],
  ])('%s plus %i is %s', (from, months, to) => {
    expect(addMonths(from, months)).toBe(to)
  })
})
