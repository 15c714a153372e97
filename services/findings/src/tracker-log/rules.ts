import { isDeepStrictEqual } from 'node:util'
import type { EvidenceRef, LogEntry, LogKind } from '@postern/contracts'

export type FieldChange = LogEntry['changes'][number]

/** An entry about to be written; what is left out has nothing to say. */
export interface LogDraft {
  readonly findingId: string
  readonly actionPlanId?: string
  readonly recommendationId?: string
  readonly kind: LogKind
  readonly body?: string | undefined
  readonly changes?: readonly FieldChange[]
  readonly evidenceRefs?: readonly EvidenceRef[] | undefined
  readonly correctsSeq?: number | undefined
  /** When it happened; default, and at the latest: when it is recorded. */
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

/**
 * Which of the named fields differ, with both values. Of `custom` each of its own fields by itself, as `custom.name`: it may hold
 * much, and the log, which never shrinks, says what has changed and not what has stayed.
 */
export function changesBetween<T extends object>(
  before: T,
  after: T,
  fields: readonly (keyof T & string)[],
): FieldChange[] {
  return fields
    .filter((field) => !isDeepStrictEqual(before[field], after[field]))
    .flatMap((field) =>
      field === 'custom'
        ? ownChanges(field, new Map(Object.entries(before[field] ?? {})), new Map(Object.entries(after[field] ?? {})))
        : [{ field, from: before[field], to: after[field] }],
    )
}

function ownChanges(
  field: string,
  before: ReadonlyMap<string, unknown>,
  after: ReadonlyMap<string, unknown>,
): FieldChange[] {
  const names = [...new Set([...before.keys(), ...after.keys()])]
  return names
    .filter((name) => !isDeepStrictEqual(before.get(name), after.get(name)))
    .map((name) => ({ field: `${field}.${name}`, from: before.get(name) ?? null, to: after.get(name) ?? null }))
}

/** What the named fields hold from the beginning: later changes say what they were before, and this is what they were at first. */
export function firstValues<T extends object>(made: T, fields: readonly (keyof T & string)[]): FieldChange[] {
  return fields
    .filter((field) => made[field] !== null && made[field] !== undefined)
    .map((field) => ({ field, from: null, to: made[field] }))
}

/** What a move of a status says: the reason, the note, or both; undefined where nothing is said. */
export function saidWith({
  reason,
  note,
}: {
  readonly reason?: string | undefined
  readonly note?: string | undefined
}): string | undefined {
  const said = [reason ?? '', note ?? ''].filter((text) => text.trim() !== '')
  return said.length === 0 ? undefined : said.join('\n\n')
}

/** One draft for each kind of change, in the order in which the kinds first occur. */
export function draftsOf(changes: readonly FieldChange[], about: Omit<LogDraft, 'kind' | 'changes'>): LogDraft[] {
  const byKind = Map.groupBy(changes, ({ field }) => kindOfField.get(field) ?? 'field_change')
  return [...byKind].map(([kind, list]) => ({ ...about, kind, changes: list }))
}
