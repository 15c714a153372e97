import { z } from 'zod'
import type { Route } from './route.ts'

export const linesMediaType = 'application/x-ndjson'

/** A page of a list with what the headers say: for clients that see only bodies. */
export const pageMediaType = 'application/vnd.postern.page+json'

/** RFC 4180 for CSV. */
export const listMediaTypes = ['application/json', linesMediaType, 'text/csv', pageMediaType] as const

const formats: Readonly<Record<string, string>> = {
  json: 'application/json',
  ndjson: linesMediaType,
  csv: 'text/csv',
}

/** Undefined: the client names none in the query, so `Accept` decides. */
export function mediaTypeAsked(query: unknown): string | undefined {
  const member = (name: string): unknown =>
    typeof query === 'object' && query !== null ? Reflect.get(query, name) : ''
  const format = member('format')
  const named = typeof format === 'string' ? formats[format] : undefined
  const isPage = member('envelope') === 'true' && (named === undefined || named === 'application/json')
  return isPage ? pageMediaType : named
}

/** Undefined if the route is not a list. */
export function itemSchemaOf(route: Route): z.ZodType | undefined {
  const { cursor, follow } = route.query?.shape ?? {}
  if (route.method !== 'GET' || (cursor === undefined && follow === undefined)) return undefined
  const schema = route.answers[200]?.schema
  return schema instanceof z.ZodArray && schema.element instanceof z.ZodType ? schema.element : undefined
}

export function columnsOf(route: Route): readonly string[] {
  if (route.csvColumns !== undefined) return route.csvColumns
  const item = itemSchemaOf(route)
  if (!(item instanceof z.ZodObject)) return []
  return Object.entries(item.shape).flatMap(([name, member]) => (member instanceof z.ZodOptional ? [] : [name]))
}

/** The default first; empty without a body. */
export function mediaTypesOf(route: Route): readonly string[] {
  if (itemSchemaOf(route) !== undefined) return listMediaTypes
  const types = Object.entries(route.answers).flatMap(([status, { schema, mediaType, alternatives = [] }]) =>
    Number(status) < 300 && (schema !== undefined || mediaType !== undefined)
      ? [mediaType ?? 'application/json', ...alternatives]
      : [],
  )
  return [...new Set(types)]
}

/** Objects as JSON, lists of words separated by spaces (RFC 4180). */
export function csvCell(value: unknown): string {
  const plain = csvText(value)
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}

export function csvText(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (Array.isArray(value) && value.every((word) => typeof word === 'string')) return value.join(' ')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
