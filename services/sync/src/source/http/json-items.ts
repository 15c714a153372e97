import { SourceFailure } from '../failure.ts'
import type { SourceItem, SourceLimits } from '../types.ts'

/** A JSON Pointer, RFC 6901; empty for the whole document. */
export const pointerPattern = /^(?:\/(?:[^~/]|~[01])*)*$/

/** What a pointer leads to, if anything. */
export function followPointer(document: unknown, pointer: string): unknown {
  let value = document
  for (const name of namesOf(pointer)) {
    if (Array.isArray(value)) value = /^(?:0|[1-9]\d*)$/.test(name) ? value[Number(name)] : undefined
    else if (isObject(value) && Object.hasOwn(value, name)) value = value[name]
    else return undefined
  }
  return value
}

function namesOf(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** Parses a page that a source has answered, as `parseExactly`. Throws a SourceFailure for what is no JSON. */
export function parseJson(text: string, page: number): unknown {
  try {
    return parseExactly(text)
  } catch (cause) {
    const isPage = /^\s*</.test(text)
    const message = isPage
      ? `page ${page} is a web page or XML and not JSON, perhaps one that asks to sign in: check the address and the credentials`
      : `page ${page} is no valid JSON: check the address`
    throw new SourceFailure('not_json', message, { cause })
  }
}

/** A string, so that what stands in one is none, or a whole number that may be too large for JavaScript. */
const stringsAndLongNumbers = /"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\d.eE+-])-?[1-9]\d{15,}(?![\d.eE])/g

/**
 * Parses JSON, at whatever depth. Whole numbers that JavaScript would round become text: they are keys. A reviver would go as deep as the
 * text does, and fail for all of it.
 */
export function parseExactly(text: string): unknown {
  const parsed: unknown = JSON.parse(text)
  if (!/\d{16}/.test(text)) return parsed
  return JSON.parse(
    text.replace(stringsAndLongNumbers, (found) =>
      found.startsWith('"') || Number.isSafeInteger(Number(found)) ? found : `"${found}"`,
    ),
  )
}

/** Strings, and what separates values; all else in a JSON text belongs to one value. */
const strings = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/g

/** An object with the names so far, or a list, that a text is within. */
interface Within {
  readonly names: Set<string> | undefined
  at: string | number
}

/** The ways to members whose object has another of that name before them. The text is valid JSON, nested however deep. */
function* repeatedMembers(text: string): Generator<(string | number)[]> {
  const within: Within[] = []
  let string = ''
  for (const [token] of text.matchAll(strings)) {
    const last = within.at(-1)
    if (token === '{') within.push({ names: new Set(), at: '' })
    else if (token === '[') within.push({ names: undefined, at: 0 })
    else if (token === '}' || token === ']') within.pop()
    else if (token === ',' && typeof last?.at === 'number') last.at += 1
    else if (token === ':' && last?.names !== undefined) {
      last.at = String(JSON.parse(string))
      if (last.names.has(last.at)) yield within.map(({ at }) => at)
      last.names.add(last.at)
    } else string = token
  }
}

/**
 * Of which items, by their index in the list at the pointer, which member stands twice somewhere in them: who reads it takes the first or the last.
 * Throws a SourceFailure where that is so beside the items. The text is valid JSON.
 */
export function findRepeats(text: string, page: number, pointer: string): ReadonlyMap<number, string> {
  const found = new Map<number, string>()
  const list = namesOf(pointer)
  for (const way of repeatedMembers(text)) {
    const [index, member] = way.slice(list.length)
    if (typeof index !== 'number' || typeof member !== 'string' || list.some((name, at) => name !== String(way[at]))) {
      const name = String(way.at(-1)).slice(0, 80).toWellFormed()
      throw new SourceFailure(
        'duplicate_key',
        `page ${page} has \`${name}\` twice in an object: have the source say it once`,
      )
    }
    if (!found.has(index)) found.set(index, member)
  }
  return found
}

/** Values that one item may hold, at any depth. Each is looked at, and each may be wrong. */
const maxValues = 10_000

/** An item of a source as a row, or what is wrong with it; `repeated` is a member in which, or as which, a name stands twice. */
export function toJsonItem(item: unknown, row: number, limits: SourceLimits, repeated?: string): SourceItem {
  if (!isObject(item)) {
    const message = 'the item is no object: set `items` to where the list of objects is'
    return { kind: 'error', row, code: 'item_not_object', message }
  }
  const names = Object.keys(item)
  if (names.length > limits.maxColumns) {
    const message = `the item has ${names.length} members; at most ${limits.maxColumns} are read`
    return { kind: 'error', row, code: 'too_many_columns', message }
  }
  if (repeated !== undefined) {
    // Of a key that stands twice nobody knows which it is.
    const { [repeated]: _, ...values } = shallow(item, limits)
    const field = repeated.slice(0, 80).toWellFormed()
    const message = 'stands twice, or a name does in it: have the source say it once'
    return { kind: 'error', row, field, code: 'duplicate_key', message, values }
  }
  const budget = { left: maxValues }
  for (const name of names) {
    const fault = findNameFault(name) ?? findFault(item[name], limits, 2, budget)
    if (fault !== undefined) {
      const field = name.slice(0, 80).toWellFormed()
      return { kind: 'error', row, field, ...fault, values: shallow(item, limits) }
    }
  }
  return { kind: 'row', row, values: item }
}

/** Those of its members that nest no deeper than is read: nothing that goes through the others comes to its end. */
function shallow(item: Record<string, unknown>, { maxDepth }: SourceLimits): Record<string, unknown> {
  return Object.fromEntries(Object.entries(item).filter(([, value]) => !isDeeper(value, maxDepth - 1)))
}

/** Whether objects and lists nest in a value beyond so many levels. */
export function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((member) => isDeeper(member, levels - 1))
}

interface ValueFault {
  readonly code: string
  readonly message: string
}

function findFault(
  value: unknown,
  limits: SourceLimits,
  depth: number,
  budget: { left: number },
): ValueFault | undefined {
  budget.left -= 1
  if (budget.left < 0) return { code: 'too_many_values', message: `the item holds more than ${maxValues} values` }
  if (typeof value === 'string') {
    if (value.length > limits.maxValueLength) {
      const message = `has ${value.length} characters; at most ${limits.maxValueLength} are read`
      return { code: 'value_too_long', message }
    }
    if (value.includes('\0')) return { code: 'control_character', message: 'holds a null character: remove it' }
    return isBroken(value) ? encodingBroken : undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  if (depth > limits.maxDepth) {
    return { code: 'nested_too_deep', message: `is nested deeper than ${limits.maxDepth} levels` }
  }
  for (const [name, member] of Object.entries(value)) {
    const fault = findNameFault(name) ?? findFault(member, limits, depth + 1, budget)
    if (fault !== undefined) return fault
  }
  return undefined
}

function findNameFault(name: string): ValueFault | undefined {
  return isBroken(name) ? encodingBroken : undefined
}

const encodingBroken: ValueFault = {
  code: 'encoding_broken',
  message: 'holds bytes that are not of UTF-8, or half a character: have the source answer in UTF-8',
}

/** Whether it holds what a decoder puts in the place of bytes that it cannot read, or half of a pair. */
function isBroken(text: string): boolean {
  return text.includes('\uFFFD') || !text.isWellFormed()
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
