import { type InputError, wordsOf } from '@postern/contracts'
import type { z } from 'zod'
import {
  computedFields,
  hintForField,
  hintForObject,
  hintForParameter,
  hintForWord,
  isWrapper,
  memberOf,
  namesAt,
} from './likely-meant.ts'

const maxErrors = 50

interface Refused {
  /** The parsed value, to report repeated parameters and to suggest words. */
  readonly value?: unknown
  /** To suggest names of fields and parameters. */
  readonly schema?: z.ZodType
  /** The path of the route, to suggest the routes that change a field. */
  readonly path?: string | undefined
}

/** JSON Pointers or parameter names. A wrapper comes first, because it explains the other errors. */
export function inputErrors(error: z.ZodError, where: 'body' | 'parameter', refused: Refused = {}): InputError[] {
  const explains = (issue: z.core.$ZodIssue): boolean => where === 'body' && hasWrapper(issue, refused)
  const { first = [], then = [] } = Object.groupBy(error.issues, (issue) => (explains(issue) ? 'first' : 'then'))
  return [...first, ...then].flatMap((issue) => fromIssue(issue, where, refused)).slice(0, maxErrors)
}

function hasWrapper(issue: z.core.$ZodIssue, { value, schema }: Refused): boolean {
  if (issue.code !== 'unrecognized_keys') return false
  const known = namesAt(schema, issue.path)
  const within = issue.path.reduce(memberOf, value)
  return issue.keys.some((key) => isWrapper(memberOf(within, key), known))
}

function fromIssue(
  issue: z.core.$ZodIssue,
  where: 'body' | 'parameter',
  { value, schema, path }: Refused,
): InputError[] {
  if (where === 'parameter' && isRepeated(issue, value)) {
    return [{ ...locate(issue.path, where), code: 'repeated', detail: 'must occur once' }]
  }
  if (issue.code === 'unrecognized_keys') {
    const what = where === 'body' ? 'is not a field of this resource' : 'is not a parameter of this operation'
    const known = namesAt(schema, issue.path)
    const within = issue.path.reduce(memberOf, value)
    return issue.keys.map((key) => {
      if (where === 'body' && isOfResource(issue.path) && computedFields.has(key) && !known.includes(key)) {
        return { ...locate([...issue.path, key], where), code: 'unknown', detail: 'is set by Postern: leave it out' }
      }
      const field = { value: memberOf(within, key), path }
      const hint = where === 'body' ? hintForField(key, known, field) : hintForParameter(key, known)
      const isUnlike = hint === '' && issue.keys.length === 1 && known.length > 0
      const all = isUnlike ? `; the ${where === 'body' ? 'fields' : 'parameters'} are ${known.join(', ')}` : ''
      return { ...locate([...issue.path, key], where), code: 'unknown', detail: `${what}${hint}${all}` }
    })
  }
  const hint =
    where === 'parameter' && hasLostPlus(issue, value)
      ? `; ${howToWritePlus}`
      : hintForWord(issue, value) + hintForObject(issue, schema)
  return [{ ...locate(issue.path, where), code: codeOf(issue), detail: `${wordsOf(issue)}${hint}` }]
}

/** Whether a path is that of the body or of an item, not of one of its members. */
function isOfResource(path: readonly PropertyKey[]): boolean {
  return typeof (path.at(-1) ?? 0) === 'number'
}

const howToWritePlus = 'write a + as %2B in a query, because + means a space there'

function hasLostPlus(issue: z.core.$ZodIssue, value: unknown): boolean {
  const [name] = issue.path
  if (issue.code !== 'invalid_format' || issue.format !== 'datetime' || name === undefined) return false
  const given: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
  return typeof given === 'string' && /T[0-9:.]{1,20} [0-9]{2}:[0-9]{2}$/.test(given)
}

function isRepeated(issue: z.core.$ZodIssue, value: unknown): boolean {
  const [name] = issue.path
  if (issue.path.length !== 1 || name === undefined || typeof value !== 'object' || value === null) return false
  return Array.isArray(Reflect.get(value, name)) && isOfOneValue(issue)
}

function isOfOneValue(issue: z.core.$ZodIssue): boolean {
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected !== 'array'
    case 'invalid_value':
      return true
    case 'invalid_union':
      return issue.errors.length > 0 && issue.errors.every(([first]) => first?.path.length === 0 && isOfOneValue(first))
    default:
      return false
  }
}

function codeOf(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type' && issue.message.endsWith('received undefined')) return 'required'
  if (issue.code !== 'custom') return issue.code
  const own: unknown = issue.params?.['code']
  return typeof own === 'string' ? own : 'invalid'
}

function locate(
  path: readonly PropertyKey[],
  where: 'body' | 'parameter',
): { pointer: string } | { parameter: string } {
  if (where === 'parameter') return { parameter: String(path[0] ?? '') }
  return { pointer: pointerTo(path) }
}

export function bodyError(detail: string, code = 'invalid'): InputError {
  return { pointer: '', code, detail }
}

const maxPointerLength = 1000

/** RFC 6901; of a parent if it is too long. */
export function pointerTo(path: readonly PropertyKey[]): string {
  let pointer = ''
  for (const part of path) {
    const longer = `${pointer}/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`
    if (longer.length > maxPointerLength) return pointer
    pointer = longer
  }
  return pointer
}
