import { isDeepStrictEqual } from 'node:util'
import type { EvidenceRef, LogEntry, LogKind } from '@postern/contracts'

export type FieldChange = LogEntry['changes'][number]

export interface LogDraft {
  readonly findingId: string
  readonly actionPlanId?: string
  readonly recommendationId?: string
  readonly kind: LogKind
  readonly body?: string | undefined
  readonly changes?: readonly FieldChange[]
  readonly evidenceRefs?: readonly EvidenceRef[] | undefined
  readonly correctsSeq?: number | undefined
  /** Default and maximum: the time of recording. */
  readonly occurredAt?: Date | undefined
  readonly onBehalfOf?: string | undefined
}

const kindOfField: ReadonlyMap<string, LogKind> = new Map([
  ['status', 'status_change'],
  ['owner', 'owner_change'],
  ['target_date', 'due_date_change'],
  ['due_date', 'due_date_change'],
  ['percent_complete', 'progress'],
])

/** Fields within `custom` are compared one by one, as `custom.name`. */
export function changesBetween<T extends object>(
  before: T,
  after: T,
  fields: readonly (keyof T & string)[],
): FieldChange[] {
  return fields
    .filter((field) => !isDeepStrictEqual(before[field], after[field]))
    .flatMap((field) =>
      field === 'custom'
        ? changesOfCustom(
            field,
            new Map(Object.entries(before[field] ?? {})),
            new Map(Object.entries(after[field] ?? {})),
          )
        : [{ field, from: before[field], to: after[field] }],
    )
}

function changesOfCustom(
  field: string,
  before: ReadonlyMap<string, unknown>,
  after: ReadonlyMap<string, unknown>,
): FieldChange[] {
  const names = [...new Set([...before.keys(), ...after.keys()])]
  return names
    .filter((name) => !isDeepStrictEqual(before.get(name), after.get(name)))
    .map((name) => ({ field: `${field}.${name}`, from: before.get(name) ?? null, to: after.get(name) ?? null }))
}

/** Returns initial values as changes from null. */
export function initialChanges<T extends object>(made: T, fields: readonly (keyof T & string)[]): FieldChange[] {
  return fields
    .filter((field) => made[field] !== null && made[field] !== undefined)
    .map((field) => ({ field, from: null, to: made[field] }))
}

export function textOfMove({
  reason,
  note,
}: {
  readonly reason?: string | undefined
  readonly note?: string | undefined
}): string | undefined {
  const texts = [reason ?? '', note ?? ''].filter((text) => text.trim() !== '')
  return texts.length === 0 ? undefined : texts.join('\n\n')
}

export function draftsOf(changes: readonly FieldChange[], about: Omit<LogDraft, 'kind' | 'changes'>): LogDraft[] {
  const byKind = Map.groupBy(changes, ({ field }) => kindOfField.get(field) ?? 'field_change')
  return [...byKind].map(([kind, list]) => ({ ...about, kind, changes: list }))
}
