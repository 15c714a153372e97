/** Errors in a row, regardless of other rows. Universe and sync share these rules. */
export interface RowRuleFault {
  readonly field: string
  readonly code: 'out_of_range' | 'invalid'
  readonly detail: string
}

type Row = Readonly<Record<string, unknown>>

const earliestDate = '1900-01-01'

export function checkEntityRow(row: Row): RowRuleFault[] {
  return earlyDates(row, ['risk_assessed_at', 'last_audit_date', 'regulatory_next_due'])
}

export function checkNodeRow(row: Row): RowRuleFault[] {
  return [...earlyDates(row, ['valid_from', 'valid_to']), ...orderFaults(row, 'valid_from', 'valid_to')]
}

export function checkTestProcedureRow(row: Row): RowRuleFault[] {
  const { population_size: population, sample_size: sample, tester, reviewer } = row
  return [
    ...earlyDates(row, ['period_start', 'period_end', 'due_date']),
    ...orderFaults(row, 'period_start', 'period_end'),
    ...(typeof population === 'number' && typeof sample === 'number' && sample > population
      ? [{ field: 'sample_size', code: 'out_of_range', detail: 'must not exceed `population_size`' } as const]
      : []),
    ...(tester !== undefined && reviewer !== undefined && isSamePerson(tester, reviewer) ? [ownReview] : []),
  ]
}

export const ownReview = { field: 'reviewer', code: 'invalid', detail: 'must be someone else than the tester' } as const

function earlyDates(row: Row, fields: readonly string[]): RowRuleFault[] {
  return fields.flatMap((field): RowRuleFault[] => {
    const date = row[field]
    if (typeof date !== 'string' || date >= earliestDate) return []
    return [{ field, code: 'out_of_range', detail: `must be ${earliestDate} or later` }]
  })
}

function orderFaults(row: Row, first: string, last: string): RowRuleFault[] {
  const [from, to] = [row[first], row[last]]
  if (typeof from !== 'string' || typeof to !== 'string' || from <= to) return []
  return [{ field: last, code: 'out_of_range', detail: `must not be before \`${first}\`` }]
}

export function isSamePerson(one: unknown, other: unknown): boolean {
  const isSame = (member: string): boolean => partOf(one, member) === partOf(other, member)
  if (partOf(one, 'person_id') !== undefined && isSame('person_id')) return true
  const email = partOf(one, 'email')
  if (email !== undefined && email.toLowerCase() === partOf(other, 'email')?.toLowerCase()) return true
  return ['person_id', 'email', 'name'].every(isSame)
}

function partOf(person: unknown, member: string): string | undefined {
  if (typeof person !== 'object' || person === null) return undefined
  const value: unknown = Object.getOwnPropertyDescriptor(person, member)?.value
  return typeof value === 'string' ? value : undefined
}
