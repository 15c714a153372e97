import type { CreateFinding, CreatedBy, Finding, FindingStub, InputError } from '@postern/contracts'

/** A calendar date (UTC), `YYYY-MM-DD`. Two of them compare as text. */
export type CalendarDate = string

/** What is stored of a finding; the rest of a `Finding` follows from it and from the date of the reading. */
export type StoredFinding = Omit<Finding, 'is_overdue' | 'age_days' | 'is_repeat'>

/** A finding about to be stored. */
export interface NewFinding {
  readonly fields: CreateFinding
  readonly createdBy: CreatedBy
  /** Days from identification to the target date where the caller names none. */
  readonly targetDays: number
}

/** How long a finding of each severity may take where nobody has agreed on a date: days after its identification. */
export const targetDaysBySeverity: Readonly<Record<Finding['severity'], number>> = {
  critical: 30,
  high: 90,
  medium: 180,
  low: 365,
}

const earliestDate: CalendarDate = '1900-01-01'
const dayMs = 86_400_000

/** The finding as it is read on a day: with the fields that change by themselves. */
export function asRead(stored: StoredFinding, today: CalendarDate): Finding {
  const lastDay = stored.closed_date ?? today
  return {
    ...stored,
    is_repeat: stored.repeat_of_id !== null,
    is_overdue: !endStatuses.has(stored.status) && stored.target_date !== null && stored.target_date < today,
    age_days: Math.max(0, daysBetween(stored.identified_date, lastDay)),
  }
}

/** Nobody works on these any more, so that a date can no longer be missed. */
const endStatuses: ReadonlySet<Finding['status']> = new Set(['closed', 'risk_accepted', 'cancelled'])

/** All that an answer to a write may say to a caller that cannot read findings. */
export function asStub({ id, reference, version, status }: StoredFinding): FindingStub {
  return { id, reference, version, status }
}

/** The entity tag: a finding reads differently when its version or the day has changed. */
export function entityTag(version: number, today: CalendarDate): string {
  return `"${version}.${today}"`
}

/**
 * What keeps a well-formed body from being a finding, all faults at once. The database checks the same and more: what
 * needs its clock or other rows is left to it (`faultOfConstraint`).
 */
export function creationFaults(finding: CreateFinding): InputError[] {
  return [
    ...(['identified_date', 'target_date'] as const).flatMap((field) => {
      const date = finding[field]
      return date !== undefined && date < earliestDate
        ? [fault(field, 'out_of_range', `must be ${earliestDate} or later`)]
        : []
    }),
    ...(finding.status === 'draft' ? [] : incompleteFaults(finding)),
  ]
}

function incompleteFaults(finding: CreateFinding): InputError[] {
  const detail = 'is needed before a finding can leave the draft'
  const texts = (['criteria', 'cause', 'consequence'] as const).filter((field) => (finding[field] ?? '').trim() === '')
  return [
    ...texts.map((field) => fault(field, 'required', detail)),
    ...(finding.entity_ids.length === 0 ? [fault('entity_ids', 'required', detail)] : []),
    ...(finding.owner === undefined ? [fault('owner', 'required', detail)] : []),
  ]
}

/** Says to the caller what a constraint of the database has refused; undefined where only we can be at fault. */
export function faultOfConstraint(constraint: string): InputError | undefined {
  switch (constraint) {
    case 'finding_identified_not_in_future':
      return fault('identified_date', 'in_future', 'must not be later than today (UTC)')
    case 'finding_repeat_of_fk':
      return fault('repeat_of_id', 'unknown', 'must be the id of another finding')
    default:
      return undefined
  }
}

function fault(field: keyof CreateFinding, code: string, detail: string): InputError {
  return { pointer: `/${field}`, code, detail }
}

function daysBetween(from: CalendarDate, to: CalendarDate): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / dayMs)
}
