import { decimalOf } from '@postern/service-kit'
import { SourceReadError } from '../source-read-error.ts'
import { undecodable } from '../marking-decoder.ts'
import { nameOfPart } from '../../mapping/pointer.ts'
import { type ColumnFault, type SourceItem, type SourceLimits, toRowOrError } from '../types.ts'

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
  return pointer.split('/').slice(1).map(nameOfPart)
}

export function parseJson(text: string, page: number): unknown {
  try {
    return parseExactly(text)
  } catch (cause) {
    const isPage = /^\s*</.test(text)
    const message = isPage
      ? `page ${page} is a web page or XML instead of JSON, perhaps a sign-in page: check the address and the credentials`
      : `page ${page} is not valid JSON: check the address`
    throw new SourceReadError('not_json', message, { cause })
  }
}

/** Matches numbers that JavaScript may round. */
const longNumber = /[:,[\s]-?(?:\d\.?){16}/
/** Matches numbers that JavaScript may turn into infinity or zero. */
const farNumber = /[eE][+-]?\d{3,}\s*[,\]}]/
const onlyNumber = /^\s*-?\d/

/** Strings are matched so that digits inside them are skipped. */
const stringsAndNumbers = /"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\d.eE+-])-?(?:(?:\d\.?){16}[\d.eE+-]*|[\d.]+[eE][+-]?\d{3,})/g

/** Numbers that JavaScript would round become text, because they may be keys. A reviver would overflow the stack. */
export function parseExactly(text: string): unknown {
  const parsed: unknown = JSON.parse(text)
  if (!longNumber.test(text) && !farNumber.test(text) && !onlyNumber.test(text)) return parsed
  return JSON.parse(
    text.replace(stringsAndNumbers, (found) => (found.startsWith('"') || isExact(found) ? found : `"${found}"`)),
  )
}

/** A fraction with this many digits is a measurement and not a key, so it may be rounded. */
const printedDigits = 17

function isExact(literal: string): boolean {
  const value = Number(literal)
  if (/^-?\d+$/.test(literal)) return Number.isSafeInteger(value)
  const given = decimalOf(literal)
  if (given.digits === '') return true
  if (isOutOfRange(value)) return false
  const held = decimalOf(String(value))
  const isSame = given.digits === held.digits && given.exponent === held.exponent
  return isSame || (given.exponent < 0 && given.digits.length <= printedDigits)
}

function isOutOfRange(value: number): boolean {
  return value === 0 || !Number.isFinite(value)
}

const strings = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/g
const stringsAndFarNumbers = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|(?<![\d.])-?[\d.]+[eE][+-]?\d{3,}/g

interface OpenValue {
  readonly names: Set<string> | undefined
  at: string | number
}

/** A repeated name, or the number `far` that is out of range. */
interface TextFault {
  readonly path: readonly (string | number)[]
  readonly far?: string
}

/** The text must be valid JSON. */
function* findTextFaults(text: string): Generator<TextFault> {
  const open: OpenValue[] = []
  let string = ''
  for (const [token] of text.matchAll(farNumber.test(text) ? stringsAndFarNumbers : strings)) {
    const last = open.at(-1)
    if (token === '{') open.push({ names: new Set(), at: '' })
    else if (token === '[') open.push({ names: undefined, at: 0 })
    else if (token === '}' || token === ']') open.pop()
    else if (token === ',' && typeof last?.at === 'number') last.at += 1
    else if (token === ':' && last?.names !== undefined) {
      last.at = String(JSON.parse(string))
      if (last.names.has(last.at)) yield { path: open.map(({ at }) => at) }
      last.names.add(last.at)
    } else if (token.startsWith('"')) string = token
    else if (/^[-\d]/.test(token) && isOutOfRange(Number(token)) && decimalOf(token).digits !== '') {
      yield { path: open.map(({ at }) => at), far: token }
    }
  }
}

export interface MemberFault {
  readonly member: string
  readonly code: string
  readonly message: string
  readonly excerpt?: string
}

/**
 * Returns faults by the index of the item. A repeated name is a fault because parsers disagree on which value counts. Throws a
 * SourceReadError if a name is repeated outside of the items.
 */
export function findMemberFaults(
  text: string,
  page: number,
  pointer: string,
): ReadonlyMap<number, readonly MemberFault[]> {
  const found = new Map<number, MemberFault[]>()
  const list = namesOf(pointer)
  for (const { path, far } of findTextFaults(text)) {
    const [index, member] = path.slice(list.length)
    if (
      typeof index === 'number' &&
      typeof member === 'string' &&
      list.every((name, at) => name === String(path[at]))
    ) {
      const faults = found.get(index) ?? []
      if (!faults.some((fault) => fault.member === member)) {
        found.set(index, [...faults, { member, ...(far === undefined ? repeatedName : outOfRangeFault(far)) }])
      }
    } else if (far === undefined) {
      const name = String(path.at(-1)).slice(0, 80).toWellFormed()
      const message = `page ${page} has \`${name}\` twice in an object: make the source send it once`
      throw new SourceReadError('duplicate_key', message)
    }
  }
  return found
}

const repeatedName = {
  code: 'duplicate_key',
  message: 'is repeated, or contains a repeated name: make the source send it once',
}

function outOfRangeFault(literal: string): Omit<MemberFault, 'member'> {
  const message = 'is a number that a double cannot hold: make the source send it as text'
  return { code: 'inexact_number', message, excerpt: literal.slice(0, 80) }
}

const maxValues = 10_000

/** `known` holds the faults found in the text. */
export function toJsonItem(
  item: unknown,
  row: number,
  limits: SourceLimits,
  known: readonly MemberFault[] = [],
): SourceItem {
  if (!isObject(item)) {
    const message = 'the item is not an object: set `items` to where the list of objects is'
    return { kind: 'error', row, code: 'item_not_object', message }
  }
  const names = Object.keys(item)
  if (names.length > limits.maxColumns) {
    const message = `the item has ${names.length} members; at most ${limits.maxColumns} are read`
    return { kind: 'error', row, code: 'too_many_columns', message }
  }
  const faults: ColumnFault[] = known.map(({ member, ...fault }) => ({ column: member, ...fault }))
  const budget = { left: maxValues }
  for (const name of names) {
    if (known.some(({ member }) => member === name)) continue
    const fault = findNameFault(name) ?? findFault(item[name], limits, 2, budget)
    if (fault !== undefined) faults.push({ column: name, ...fault })
    if (budget.left < 0) {
      const message = `the item has more than ${maxValues} values`
      return { kind: 'error', row, code: 'too_many_values', message, values: limitDepth(item, limits) }
    }
  }
  if (faults.length === 0) return { kind: 'row', row, values: item }
  // The value of a repeated or inexact key is unknown.
  const unknown = new Set(known.map(({ member }) => member))
  const values = Object.fromEntries(Object.entries(limitDepth(item, limits)).filter(([name]) => !unknown.has(name)))
  return toRowOrError(row, values, faults)
}

/** Drops members that are nested too deep, so that later recursion is safe. */
function limitDepth(item: Record<string, unknown>, { maxDepth }: SourceLimits): Record<string, unknown> {
  return Object.fromEntries(Object.entries(item).filter(([, value]) => !isDeeper(value, maxDepth - 1)))
}

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
  if (budget.left < 0) return { code: 'too_many_values', message: `the item has more than ${maxValues} values` }
  if (typeof value === 'string') {
    if (value.length > limits.maxValueLength) {
      const message = `has ${value.length} characters; at most ${limits.maxValueLength} are read`
      return { code: 'value_too_long', message }
    }
    if (value.includes('\0')) return { code: 'control_character', message: 'contains a null character: remove it' }
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
  message: 'contains bytes that are not UTF-8, or half a character: make the source send UTF-8',
}

function isBroken(text: string): boolean {
  return text.includes(undecodable) || !text.isWellFormed()
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
