import { isDeepStrictEqual } from 'node:util'
import {
  type CreateFinding,
  type CreatedBy,
  type Finding,
  type FindingStub,
  type InputError,
  type UpdateFinding,
  managementResponseSchema,
  personRefSchema,
} from '@postern/contracts'
import { z } from 'zod'
import { notComparable } from '../four-eyes.ts'
import { mergedMembers } from '../merge-patch.ts'
import { comparePeople, dropFormerPerson } from '../person.ts'

/** A UTC date, `YYYY-MM-DD`, which compares as text. */
export type CalendarDate = string

export type StoredFinding = Omit<Finding, 'is_overdue' | 'age_days' | 'is_repeat' | 'is_acceptance_expired'>

export interface NewFinding {
  readonly fields: CreateFinding
  readonly createdBy: CreatedBy
  readonly targetDays: number
}

/** Days from identification to the target date. */
export const targetDaysBySeverity: Readonly<Record<Finding['severity'], number>> = {
  critical: 30,
  high: 90,
  medium: 180,
  low: 365,
}

const earliestDate: CalendarDate = '1900-01-01'
const dayMs = 86_400_000

export function asRead(stored: StoredFinding, today: CalendarDate): Finding {
  const lastDay = stored.closed_date ?? today
  return {
    ...stored,
    is_repeat: stored.repeat_of_id !== null,
    is_overdue: !endStatuses.has(stored.status) && stored.target_date !== null && stored.target_date < today,
    is_acceptance_expired: stored.accepted_until !== null && stored.accepted_until < today,
    age_days: Math.max(0, daysBetween(stored.identified_date, lastDay)),
  }
}

/** Findings with these statuses are never overdue. */
const endStatuses: ReadonlySet<Finding['status']> = new Set(['closed', 'risk_accepted', 'cancelled'])

export function asStub({ id, reference, version, status }: StoredFinding): FindingStub {
  return { id, reference, version, status }
}

/** The database also checks what needs its clock or other rows. */
export function creationFaults(finding: CreateFinding): InputError[] {
  return [
    ...(['identified_date', 'target_date'] as const).flatMap((field) => {
      const date = finding[field]
      return date !== undefined && date < earliestDate
        ? [toFault(field, 'out_of_range', `must be ${earliestDate} or later`)]
        : []
    }),
    ...(finding.status === 'draft' ? [] : incompleteFaults(finding)),
  ]
}

function incompleteFaults(finding: CreateFinding): InputError[] {
  const { condition, criteria = null, cause = null, consequence = null, entity_ids, owner = null } = finding
  return missingAfterDraft({ condition, criteria, cause, consequence, entity_ids, owner }).map((field) =>
    toFault(field, 'required', 'is required unless `status` is draft'),
  )
}

export const unknownRepeat: InputError = toFault(
  'repeat_of_id',
  'unknown',
  'must be the id or address of another finding',
)

/** Returns the caller's error, or undefined if only the service can break the constraint. */
export function faultOfConstraint(constraint: string): InputError | undefined {
  switch (constraint) {
    case 'finding_condition_said':
      return toFault('condition', 'required', 'must not be blank')
    case 'finding_identified_not_in_future':
      return toFault('identified_date', 'in_future', 'must not be later than tomorrow (UTC)')
    case 'finding_repeats_what_has_ended':
      return toFault('repeat_of_id', 'not_closed', 'must be a closed finding, or one with an accepted risk')
    case 'finding_repeat_of_fk':
      return unknownRepeat
    // The clocks of service and database may differ around midnight.
    case 'finding_accepted_until_range':
      return {
        pointer: '/accepted_until',
        code: 'out_of_range',
        detail: 'must be a day from today to 24 months from now',
      }
    case 'finding_reopened_in_time':
      return { pointer: '/to', code: 'too_late', detail: 'was closed more than 12 months ago' }
    case 'finding_validator_is_another':
      return { pointer: '/validated_by', code: 'not_comparable', detail: notComparable }
    case 'finding_owner_is_another':
      return toFault('owner', 'same_person', 'must not be the person who validated the remedy')
    default:
      return undefined
  }
}

function toFault(field: keyof CreateFinding | keyof UpdateFinding, code: string, detail: string): InputError {
  return { pointer: `/${field}`, code, detail }
}

export const patchedFields = [
  'external_id',
  'title',
  'condition',
  'criteria',
  'cause',
  'consequence',
  'corrective_action',
  'cause_category',
  'severity',
  'type',
  'deficiency_class',
  'coso_component',
  'entity_ids',
  'owner',
  'identified_date',
  'target_date',
  'repeat_of_id',
  'source',
  'engagement_ref',
  'test_procedure_id',
  'management_response',
  'custom',
] as const satisfies readonly (keyof UpdateFinding)[]

const mergedObjects = z.object({
  owner: personRefSchema.nullish(),
  management_response: managementResponseSchema.nullish(),
})

/** RFC 7396. Returns an error if the result is invalid. */
export function applyPatch(
  stored: StoredFinding,
  patch: UpdateFinding,
): { readonly after: StoredFinding; readonly error?: z.ZodError } {
  const { owner, management_response, ...members } = mergedMembers(stored, patch)
  const merged = mergedObjects.safeParse({
    owner: dropFormerPerson(stored.owner, patch.owner, owner),
    management_response,
  })
  if (!merged.success) return { after: stored, error: merged.error }
  const objects = Object.entries(merged.data).filter(([, value]) => value !== undefined)
  return { after: { ...stored, ...members, ...Object.fromEntries(objects) } }
}

export function changeFaults(before: StoredFinding, after: StoredFinding): InputError[] {
  const faults = (['identified_date', 'target_date'] as const).flatMap((field) => {
    const date = after[field]
    return date !== null && date < earliestDate
      ? [toFault(field, 'out_of_range', `must be ${earliestDate} or later`)]
      : []
  })
  if (Object.keys(after.custom).length > 50) faults.push(toFault('custom', 'too_big', 'must have at most 50 fields'))
  if (after.repeat_of_id === after.id) faults.push(toFault('repeat_of_id', 'invalid', 'must name a different finding'))
  if (before.status === 'draft') return faults
  for (const field of ['identified_date', 'repeat_of_id'] as const) {
    if (before[field] !== after[field])
      faults.push(toFault(field, 'fixed', 'can change only while the finding is a draft'))
  }
  if (after.validated_by !== null && !isDeepStrictEqual(before.owner, after.owner)) {
    const outcome = comparePeople(after.owner, after.validated_by)
    if (outcome === 'same')
      faults.push(toFault('owner', 'same_person', 'must not be the person who validated the remedy'))
    if (outcome === 'unknown' && after.owner !== null)
      faults.push(toFault('owner', 'not_comparable', ownerNotComparable))
  }
  return [
    ...faults,
    ...missingAfterDraft(after).map((field) => toFault(field, 'required', 'is required after the draft status')),
  ]
}

export const neededAfterDraft = ['condition', 'criteria', 'cause', 'consequence', 'entity_ids', 'owner'] as const

export function missingAfterDraft(
  finding: Pick<StoredFinding, (typeof neededAfterDraft)[number]>,
): (typeof neededAfterDraft)[number][] {
  const texts = (['condition', 'criteria', 'cause', 'consequence'] as const).filter(
    (field) => (finding[field] ?? '').trim() === '',
  )
  return [
    ...texts,
    ...(finding.entity_ids.length === 0 ? (['entity_ids'] as const) : []),
    ...(finding.owner === null ? (['owner'] as const) : []),
  ]
}

const ownerNotComparable = "must have a person_id, email or name that can be compared with the validator's"

export function nextDay(date: CalendarDate): CalendarDate {
  return new Date(Date.parse(date) + dayMs).toISOString().slice(0, 10)
}

function daysBetween(from: CalendarDate, to: CalendarDate): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / dayMs)
}
