import { type CreateFinding, createFindingBodySchema } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { type StoredFinding, asRead, asStub, creationFaults, faultOfConstraint } from './rules.ts'
import { entityTag } from '../request.ts'

const stored: StoredFinding = {
  id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
  reference: 'F-2026-0042',
  external_id: null,
  title: 'Privileged access is not recertified',
  condition: 'No recertification since January.',
  criteria: null,
  cause: null,
  consequence: null,
  corrective_action: null,
  cause_category: null,
  severity: 'high',
  type: 'control_deficiency',
  deficiency_class: null,
  coso_component: null,
  status: 'open',
  entity_ids: [],
  owner: null,
  identified_date: '2026-03-01',
  target_date: '2026-05-30',
  closed_date: null,
  reopened_count: 0,
  accepted_until: null,
  accepted_by: null,
  validated_by: null,
  repeat_of_id: null,
  source: null,
  engagement_ref: null,
  test_procedure_id: null,
  management_response: null,
  custom: {},
  created_by: { type: 'api_key', id: 'k', label: 'l' },
  created_at: '2026-03-01T09:00:00.000Z',
  updated_at: '2026-03-01T09:00:00.000Z',
  version: 1,
}

const draft: CreateFinding = createFindingBodySchema.parse({ title: 't', condition: 'c', severity: 'low' })
const complete = { criteria: 'c', cause: 'c', consequence: 'c', entity_ids: [stored.id], owner: { name: 'Ada' } }

describe('a finding', () => {
  test('is overdue from the day after its target date, not on it', () => {
    expect(asRead(stored, '2026-05-30').is_overdue).toBe(false)
    expect(asRead(stored, '2026-05-31').is_overdue).toBe(true)
  })

  test.each(['closed', 'risk_accepted', 'cancelled'] as const)('is never overdue once it is %s', (status) => {
    expect(asRead({ ...stored, status }, '2027-01-01').is_overdue).toBe(false)
    expect(asRead({ ...stored, status: 'pending_validation' }, '2027-01-01').is_overdue).toBe(true)
  })

  test('counts its age in days, across leap days and never below zero', () => {
    expect(asRead({ ...stored, identified_date: '2028-02-28' }, '2028-03-01').age_days).toBe(2)
    expect(asRead(stored, '2026-02-27').age_days).toBe(0)
  })

  test('stops ageing on the day it is closed', () => {
    expect(asRead({ ...stored, status: 'closed', closed_date: '2026-03-11' }, '2027-01-01').age_days).toBe(10)
  })

  test('is a repeat only if it repeats another finding', () => {
    expect(asRead(stored, '2026-03-02').is_repeat).toBe(false)
    expect(asRead({ ...stored, repeat_of_id: stored.id }, '2026-03-02').is_repeat).toBe(true)
  })

  test('has a new entity tag for each day and each version', () => {
    expect(entityTag(1, '2026-03-01')).toBe('"1.2026-03-01"')
    expect(new Set([entityTag(1, '2026-03-01'), entityTag(1, '2026-03-02'), entityTag(2, '2026-03-01')]).size).toBe(3)
  })

  test('shows only four fields to a caller without read access', () => {
    expect(asStub(stored)).toEqual({ id: stored.id, reference: 'F-2026-0042', version: 1, status: 'open' })
  })
})

describe('validation of a new finding', () => {
  test.each(['criteria', 'cause', 'consequence', 'entity_ids', 'owner'] as const)(
    'requires %s of an open finding',
    (field) => {
      const open: CreateFinding = { ...draft, ...complete, status: 'open' }
      expect(creationFaults(open)).toEqual([])
      const { [field]: _left, ...rest } = open
      const without: CreateFinding = field === 'entity_ids' ? { ...open, entity_ids: [] } : { ...open, ...rest }
      if (field !== 'entity_ids') delete without[field]
      expect(creationFaults(without)).toEqual([expect.objectContaining({ pointer: `/${field}`, code: 'required' })])
    },
  )

  test('rejects a blank text', () => {
    const blank: CreateFinding = { ...draft, ...complete, status: 'open', cause: ' \n\t' }
    expect(creationFaults(blank)).toEqual([expect.objectContaining({ pointer: '/cause' })])
  })

  test('accepts a draft without the required texts', () => {
    expect(creationFaults(draft)).toEqual([])
  })

  test('returns all errors at once', () => {
    const faults = creationFaults({
      ...draft,
      status: 'open',
      identified_date: '0000-01-01',
      target_date: '1899-12-31',
    })
    expect(faults.map(({ pointer }) => pointer)).toEqual([
      '/identified_date',
      '/target_date',
      '/criteria',
      '/cause',
      '/consequence',
      '/entity_ids',
      '/owner',
    ])
  })

  test('does not blame the caller for constraints that only the service can break', () => {
    expect(faultOfConstraint('finding_version_positive')).toBeUndefined()
    expect(faultOfConstraint('finding_repeat_of_fk')).toMatchObject({ pointer: '/repeat_of_id' })
    expect(faultOfConstraint('finding_accepted_until_range')).toMatchObject({ pointer: '/accepted_until' })
    expect(faultOfConstraint('finding_reopened_in_time')).toMatchObject({ pointer: '/to' })
  })
})
