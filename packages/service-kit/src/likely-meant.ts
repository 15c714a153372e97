import { routeTable } from '@postern/contracts'
import { z } from 'zod'
import { findNearest } from './nearest.ts'

/** Returns a question that suggests the known name most like the given one, or an empty text. */
export function suggestName(given: string, known: readonly string[]): string {
  const nearest = findNearest(given, known)
  return nearest === undefined ? '' : `; did you mean \`${nearest}\`?`
}

const ofPages = new Set(['page', 'offset', 'skip', 'start', 'page_token', '$skip', 'page[number]'])
/** Names of the same thing in other APIs. */
const otherNames: Readonly<Record<string, readonly string[]>> = {
  limit: ['per_page', 'page_size', 'size', 'top', 'first', 'count_per_page', '$top', 'page[size]', 'max_results'],
  sort: ['order_by', 'orderby', 'order', 'sort_by', '$orderby'],
  q: ['search', 'query', 'text', 'keyword', '$search'],
  fields: ['select', '$select'],
  expand: ['include', 'embed', '$expand'],
  updated_since: ['since', 'modified_since', 'changed_since', 'updated_after', 'modified_after', 'updated_from'],
  items: ['data', 'rows', 'records'],
  body: ['text', 'comment', 'message'],
  reason: ['comment', 'justification'],
}
/** Fields that every read has and no write accepts. */
export const computedFields: ReadonlySet<string> = new Set([
  'id',
  'reference',
  'version',
  'created_at',
  'created_by',
  'updated_at',
])

function meantBy(given: string, known: readonly string[]): string | undefined {
  const [, filtered] = /^filter\[([a-z_]+)\]$/.exec(given) ?? []
  const name = filtered ?? given.replace(/^amp;/, '')
  if (name !== given && known.includes(name)) return name
  return known.find((own) => otherNames[own]?.includes(name.toLowerCase()))
}

function suggestKnown(given: string, known: readonly string[]): string {
  const meant = meantBy(given, known)
  return meant === undefined ? suggestName(given, known) : `; did you mean \`${meant}\`?`
}

/** Says what an unknown parameter probably means. */
export function hintForParameter(name: string, known: readonly string[]): string {
  if (known.includes('cursor') && ofPages.has(name)) return '; the header `Link` has the address of the next page'
  return suggestKnown(name, known)
}

/** Says what an unknown field probably means. `value` is the field's, and `path` that of the route. */
export function hintForField(
  name: string,
  known: readonly string[],
  { value, path }: { readonly value: unknown; readonly path: string | undefined },
): string {
  const own = routeTable.find((route) => route.method === 'POST' && route.path === `${path}/${name}`)
  if (own !== undefined) return `; change it with POST ${own.path.replace(/:([a-z_]+)/g, '{$1}')}`
  if (!isWrapper(value, known)) return suggestKnown(name, known)
  return Array.isArray(value)
    ? `; send one at a time, without \`${name}\` around it`
    : `; send its fields without \`${name}\` around them`
}

/** Whether a value is an object with known fields, or a list that begins with one. */
export function isWrapper(value: unknown, known: readonly string[]): boolean {
  const first: unknown = Array.isArray(value) ? value[0] : value
  return typeof first === 'object' && first !== null && known.some((field) => field in first)
}

const mostNamed = 12

/** Names the fields of a small object that should stand in the place of another value. */
export function hintForObject(issue: z.core.$ZodIssue, schema: unknown): string {
  if (issue.code !== 'invalid_type' || issue.expected !== 'object') return ''
  const names = namesAt(schema, issue.path)
  return names.length === 0 || names.length > mostNamed ? '' : ` with ${names.join(', ')}`
}

/** Compares a rejected word with the allowed ones. `value` is the whole input. */
export function hintForWord(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code !== 'invalid_value') return ''
  const given = issue.path.reduce(memberOf, value)
  return typeof given === 'string' ? suggestName(given, issue.values.map(String)) : ''
}

/** Returns the member at a place of a value, or a word of a text with commas. */
export function memberOf(within: unknown, part: PropertyKey): unknown {
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
