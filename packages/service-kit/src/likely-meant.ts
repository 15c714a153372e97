import { routeTable } from '@postern/contracts'
import { z } from 'zod'
import { findNearest } from './nearest.ts'

/** Returns a question that suggests the known name most like the given one, or an empty text. */
export function suggestName(given: string, known: readonly string[]): string {
  const nearest = findNearest(given, known)
  return nearest === undefined ? '' : `; did you mean \`${nearest}\`?`
}

const ofPages = new Set(['page', 'offset', 'skip', 'start', 'page_token'])
const ofPageSizes = new Set(['per_page', 'page_size', 'size', 'top', 'first', 'count_per_page'])

/** Says what an unknown parameter probably means. */
export function hintForParameter(name: string, known: readonly string[]): string {
  if (known.includes('cursor') && ofPages.has(name)) return '; the header `Link` has the address of the next page'
  if (known.includes('limit') && ofPageSizes.has(name)) return '; did you mean `limit`?'
  return suggestName(name, known)
}

/** Says what an unknown field probably means. `path` is that of the route. */
export function hintForField(name: string, known: readonly string[], path: string | undefined): string {
  const own = routeTable.find((route) => route.method === 'POST' && route.path === `${path}/${name}`)
  return own === undefined
    ? suggestName(name, known)
    : `; change it with POST ${own.path.replace(/:([a-z_]+)/g, '{$1}')}`
}

/** Compares a rejected word with the allowed ones. `value` is the whole input. */
export function hintForWord(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code !== 'invalid_value') return ''
  const given = issue.path.reduce(memberOf, value)
  return typeof given === 'string' ? suggestName(given, issue.values.map(String)) : ''
}

function memberOf(within: unknown, part: PropertyKey): unknown {
  if (typeof within === 'string' && typeof part === 'number') return within.split(',')[part]
  return typeof within === 'object' && within !== null ? Reflect.get(within, part) : undefined
}

/** Returns the member names of the object at a path of the schema; none if the schema is a union. */
export function namesAt(schema: unknown, path: readonly PropertyKey[]): readonly string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return namesAt(schema.unwrap(), path)
  if (schema instanceof z.ZodPipe) return namesAt(schema.in, path)
  const [name, ...rest] = path
  if (schema instanceof z.ZodArray) return namesAt(schema.element, rest)
  if (!(schema instanceof z.ZodObject)) return []
  return name === undefined ? Object.keys(schema.shape) : namesAt(schema.shape[String(name)], rest)
}
