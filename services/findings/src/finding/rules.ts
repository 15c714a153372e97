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
import { comparePeople, ofOnePerson } from '../person.ts'

/** A calendar date (UTC), `YYYY-MM-DD`. Two of them compare as text. */
export type CalendarDate = string

/** What is stored of a finding; the rest of a `Finding` follows from it and from the date of the reading. */
export type StoredFinding = Omit<Finding, 'is_overdue' | 'age_days' | 'is_repeat' | 'is_acceptance_expired'>

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
    is_acceptance_expired: stored.accepted_until !== null && stored.accepted_until < today,
    age_days: Math.max(0, daysBetween(stored.identified_date, lastDay)),
  }
}

/** Nobody works on these any more, so that a date can no longer be missed. */
const endStatuses: ReadonlySet<Finding['status']> = new Set(['closed', 'risk_accepted', 'cancelled'])

/** All that an answer to a write may say to a caller that cannot read findings. */
export function asStub({ id, reference, version, status }: StoredFinding): FindingStub {
  return { id, reference, version, status }
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
  const { condition, criteria = null, cause = null, consequence = null, entity_ids, owner = null } = finding
  return missingAfterDraft({ condition, criteria, cause, consequence, entity_ids, owner }).map((field) =>
    fault(field, 'required', 'is needed before a finding can leave the draft'),
  )
}

/** Says to the caller what a constraint of the database has refused; undefined where only we can be at fault. */
export function faultOfConstraint(constraint: string): InputError | undefined {
  switch (constraint) {
    case 'finding_condition_said':
      return fault('condition', 'required', 'must say something')
    case 'finding_identified_not_in_future':
      return fault('identified_date', 'in_future', 'must not be later than tomorrow (UTC)')
    case 'finding_repeats_what_has_ended':
      return fault('repeat_of_id', 'not_closed', 'must be a finding that is closed, or whose risk is accepted')
    case 'finding_repeat_of_fk':
      return fault('repeat_of_id', 'unknown', 'must be the id of another finding')
    // Judged here by our clock, and there by the database's: around midnight they may be on two days.
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
      return fault('owner', 'same_person', 'must not be who has validated the remedy')
    default:
      return undefined
  }
}

function fault(field: keyof CreateFinding | keyof UpdateFinding, code: string, detail: string): InputError {
  return { pointer: `/${field}`, code, detail }
}

/** Fields that a patch can change, as the tracker log names them. */
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

/** What members of a patched finding must be that are objects: each member of theirs was good by itself. */
const mergedObjects = z.object({
  owner: personRefSchema.nullish(),
  management_response: managementResponseSchema.nullish(),
})

/** The finding after a merge patch (RFC 7396); the error where an object in it would not be whole. */
export function patched(
  stored: StoredFinding,
  patch: UpdateFinding,
): { readonly after: StoredFinding; readonly error?: z.ZodError } {
  const { owner, management_response, ...members } = mergedMembers(stored, patch)
  const merged = mergedObjects.safeParse({
    owner: ofOnePerson(stored.owner, patch.owner, owner),
    management_response,
  })
  if (!merged.success) return { after: stored, error: merged.error }
  const objects = Object.entries(merged.data).filter(([, value]) => value !== undefined)
  return { after: { ...stored, ...members, ...Object.fromEntries(objects) } }
}

/** What keeps a finding from becoming what a patch would make of it. */
export function changeFaults(before: StoredFinding, after: StoredFinding): InputError[] {
  const faults = (['identified_date', 'target_date'] as const).flatMap((field) => {
    const date = after[field]
    return date !== null && date < earliestDate
      ? [fault(field, 'out_of_range', `must be ${earliestDate} or later`)]
      : []
  })
  if (Object.keys(after.custom).length > 50) faults.push(fault('custom', 'too_big', 'must hold at most 50 fields'))
  if (after.repeat_of_id === after.id) faults.push(fault('repeat_of_id', 'invalid', 'must be another finding'))
  if (before.status === 'draft') return faults
  for (const field of ['identified_date', 'repeat_of_id'] as const) {
    if (before[field] !== after[field]) faults.push(fault(field, 'fixed', 'can be changed in a draft only'))
  }
  if (after.validated_by !== null && !isDeepStrictEqual(before.owner, after.owner)) {
    const outcome = comparePeople(after.owner, after.validated_by)
    if (outcome === 'same') faults.push(fault('owner', 'same_person', 'must not be who has validated the remedy'))
    if (outcome === 'unknown' && after.owner !== null) faults.push(fault('owner', 'not_comparable', ownerNotComparable))
  }
  return [...faults, ...missingAfterDraft(after).map((field) => fault(field, 'required', 'is needed after the draft'))]
}

/** The members that a finding needs from the end of its draft on. */
export const neededAfterDraft = ['condition', 'criteria', 'cause', 'consequence', 'entity_ids', 'owner'] as const

/** What a finding must have before it can leave the draft, and keeps from then on. */
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

const ownerNotComparable =
  'must be named by something that who has validated the remedy is named by too (person_id, email or name)'

/** The day after a day. */
export function nextDay(date: CalendarDate): CalendarDate {
  return new Date(Date.parse(date) + dayMs).toISOString().slice(0, 10)
}

function daysBetween(from: CalendarDate, to: CalendarDate): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / dayMs)
}
