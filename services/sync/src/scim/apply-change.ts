import { isDeepStrictEqual } from 'node:util'
import { enterpriseUrn } from '@postern/contracts'
import type { Compare, Filter } from 'scim2-parse-filter'
import { type UserContent, isRecord } from './content.ts'
import { patchProblem } from './patch-problem.ts'
import type { ResolvedPath } from './resolve-path.ts'

/** A change of an attribute, of one of its parts, or of the values that a filter selects. */
export interface Change {
  readonly op: 'add' | 'replace' | 'remove'
  readonly place: ResolvedPath
  /** Undefined for a removal. */
  readonly value?: unknown
}

type Entry = Readonly<Record<string, unknown>>

export function applyChange(content: UserContent, change: Change): UserContent {
  const { attribute, isExtension } = change.place
  if (!isExtension) {
    return withOnePrimary(content, { ...content, [attribute.name]: changeValue(content[attribute.name], change) })
  }
  const extension = extensionOf(content)
  return {
    ...content,
    [enterpriseUrn]: { ...extension, [attribute.name]: changeValue(extension[attribute.name], change) },
  }
}

/** Returns the value of the attribute, with all its parts. */
export function valueAt(content: UserContent, { attribute, isExtension }: ResolvedPath): unknown {
  return (isExtension ? extensionOf(content) : content)[attribute.name]
}

export function extensionOf(content: UserContent): Entry {
  const extension = content[enterpriseUrn]
  return isRecord(extension) ? extension : {}
}

function changeValue(value: unknown, change: Change): unknown {
  const { attribute, filter, part } = change.place
  if (filter !== undefined) return changeSelected(entriesIn(value), filter, change)
  if (part === undefined) return merge(value, change)
  if (attribute.multi !== true) return withPart(isRecord(value) ? value : {}, part.name, change)
  const entries = entriesIn(value)
  return (entries.length === 0 ? [{}] : entries).map((entry) => withPart(entry, part.name, change))
}

function changeSelected(entries: readonly Entry[], filter: Filter, change: Change): readonly unknown[] {
  const { op, place, value } = change
  const { part } = place
  const selected = new Set(entries.filter((entry) => isSelected(entry, filter)))
  if (selected.size === 0 && op !== 'remove') return [...entries, newEntry(filter, change)]
  if (op === 'remove' && part === undefined) return entries.filter((entry) => !selected.has(entry))
  const changed = (entry: Entry): unknown =>
    part === undefined ? merge(entry, { op, value }) : withPart(entry, part.name, change)
  return entries.map((entry) => (selected.has(entry) ? changed(entry) : entry))
}

/** A value that is written to a type which no entry has makes one, as with `emails[type eq "work"].value`. */
function newEntry(filter: Filter, { op, place: { part }, value }: Change): Entry {
  const members = part === undefined ? value : { [part.name]: value }
  if (filter.op !== 'eq' || !isRecord(members) || (op === 'replace' && part === undefined)) {
    throw patchProblem('noTarget', 'the filter in the path selects no value')
  }
  return { [filter.attrPath]: filter.compValue, ...members }
}

function withPart(entry: Entry, name: string, { value }: Change): Entry {
  return { ...entry, [name]: value }
}

/** Adds to a list what it does not have yet, and keeps the parts of an object that the new one lacks. */
function merge(before: unknown, { op, value }: Pick<Change, 'op' | 'value'>): unknown {
  if (op === 'remove') return undefined
  if (op === 'add' && Array.isArray(before) && Array.isArray(value)) {
    const added = value.filter((item: unknown) => !before.some((one: unknown) => isDeepStrictEqual(one, item)))
    return [...before, ...added]
  }
  if (!isRecord(before)) return value
  if (typeof value === 'object') return { ...before, ...value }
  if (op === 'add') throw patchProblem('invalidPath', 'only an object can be added to an object')
  return value
}

function isSelected(entry: Entry, filter: Filter): boolean {
  switch (filter.op) {
    case 'and':
      return filter.filters.every((each) => isSelected(entry, each))
    case 'or':
      return filter.filters.some((each) => isSelected(entry, each))
    case 'not':
      return !isSelected(entry, filter.filter)
    case '[]':
      return false
    case 'pr':
      return (entry[filter.attrPath] ?? '') !== ''
    default:
      return isMatch(comparable(entry[filter.attrPath]), filter.op, comparable(filter.compValue))
  }
}

/** Texts are compared case-insensitively (RFC 7643, section 2.2). */
function comparable(value: unknown): string {
  return value === undefined || value === null ? '' : String(value).normalize('NFC').toLowerCase()
}

function isMatch(left: string, op: Compare['op'], right: string): boolean {
  switch (op) {
    case 'eq':
      return left === right
    case 'ne':
      return left !== right
    case 'co':
      return left.includes(right)
    case 'sw':
      return left.startsWith(right)
    case 'ew':
      return left.endsWith(right)
    case 'gt':
      return left > right
    case 'ge':
      return left >= right
    case 'lt':
      return left < right
    case 'le':
      return left <= right
    default:
      return op satisfies never
  }
}

const withPrimary = ['emails', 'phoneNumbers', 'addresses'] as const

/** If another entry became primary, the earlier one no longer is (RFC 7644, section 3.5.2). */
function withOnePrimary(before: UserContent, after: UserContent): UserContent {
  const changed = withPrimary.flatMap((name) => {
    const [earlier, entries] = [entriesIn(before[name]), entriesIn(after[name])]
    const primary = entries.filter(isPrimary)
    if (primary.length < 2) return []
    const kept = primary.findLast((entry) => !earlier.some((one) => isDeepStrictEqual(one, entry))) ?? primary[0]
    return [[name, entries.map((entry) => (isPrimary(entry) && entry !== kept ? { ...entry, primary: false } : entry))]]
  })
  return { ...after, ...Object.fromEntries(changed) }
}

function entriesIn(value: unknown): readonly Entry[] {
  return Array.isArray(value) ? value.filter(isRecord) : []
}

function isPrimary({ primary }: Entry): boolean {
  return String(primary).toLowerCase() === 'true'
}
