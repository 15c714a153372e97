import { bodyError, pointerTo } from './input-errors.ts'
import { problem } from './problem.ts'

const mayChange = /[\u0300-\uffff]/

/** Two names of an object are equal in NFC. */
export class DuplicateNameError extends Error {
  override readonly name = 'DuplicateNameError'
  readonly path: readonly (string | number)[]

  constructor(path: readonly (string | number)[]) {
    super('two names of one object are the same in NFC')
    this.path = path
  }
}

/** UAX #15. Throws DuplicateNameError. */
export function normalizeTexts(value: unknown): unknown {
  return normalizeAt(value, [])
}

/** Skips the members in `exact`. Throws a problem. */
export function normalizeBody(body: unknown, exact: readonly string[] = []): unknown {
  try {
    if (exact.length === 0 || !isPlainObject(body)) return normalizeTexts(body)
    const members = Object.entries(body)
    const others = normalizeMembers(Object.fromEntries(members.filter(([name]) => !exact.includes(name))), [])
    // Spread, not assigned: `__proto__` stays a member.
    return { ...Object.fromEntries(members.filter(([name]) => exact.includes(name))), ...others }
  } catch (cause) {
    if (!(cause instanceof DuplicateNameError)) throw cause
    throw problem('malformed_json', {
      detail: 'Two names of one object differ only in their Unicode normalization. Send each name once.',
      errors: [
        { ...bodyError('occurs more than once in its object', 'duplicate_key'), pointer: pointerTo(cause.path) },
      ],
      cause,
    })
  }
}

export function normalizeParameters(parameters: unknown): unknown {
  if (typeof parameters !== 'object' || parameters === null) return parameters
  const given = Object.entries(parameters)
  const normalized = given.map(([name, value]) => [name, normalizeTexts(value)] as const)
  return normalized.every(([, value], at) => value === given[at]?.[1]) ? parameters : Object.fromEntries(normalized)
}

function normalizeAt(value: unknown, path: (string | number)[]): unknown {
  if (typeof value === 'string') return normalizeText(value)
  if (Array.isArray(value)) return normalizeItems(value, path)
  return isPlainObject(value) ? normalizeMembers(value, path) : value
}

function normalizeText(text: string): string {
  return mayChange.test(text) ? text.normalize('NFC') : text
}

function normalizeItems(items: readonly unknown[], path: (string | number)[]): readonly unknown[] {
  let isChanged = false
  const normalized = items.map((item, index) => {
    path.push(index)
    const own = normalizeAt(item, path)
    path.pop()
    isChanged ||= own !== item
    return own
  })
  return isChanged ? normalized : items
}

function normalizeMembers(members: object, path: (string | number)[]): object {
  const given: readonly (readonly [string, unknown])[] = Object.entries(members)
  const normalized = new Map<string, unknown>()
  let isChanged = false
  for (const [name, member] of given) {
    const own = normalizeText(name)
    path.push(name)
    if (normalized.has(own)) throw new DuplicateNameError([...path])
    const value = normalizeAt(member, path)
    path.pop()
    isChanged ||= own !== name || value !== member
    normalized.set(own, value)
  }
  return isChanged ? Object.fromEntries(normalized) : members
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}
