import { z } from 'zod'
import type { Route } from './route.ts'

/** NDJSON: a line for each item of a list. */
export const linesMediaType = 'application/x-ndjson'

/** What every list can be answered as: a page as JSON, or the whole result as NDJSON or CSV (RFC 4180). */
export const listMediaTypes = ['application/json', linesMediaType, 'text/csv'] as const

/** The schema of what a list holds; undefined where the route is no list that is read in pages. */
export function itemSchemaOf(route: Route): z.ZodType | undefined {
  if (route.method !== 'GET' || route.query?.shape['cursor'] === undefined) return undefined
  const schema = route.answers[200]?.schema
  return schema instanceof z.ZodArray && schema.element instanceof z.ZodType ? schema.element : undefined
}

/** The columns of a list as CSV, in order: `csvColumns` of the route, else the members of an item except those that `expand` adds. */
export function columnsOf(route: Route): readonly string[] {
  if (route.csvColumns !== undefined) return route.csvColumns
  const item = itemSchemaOf(route)
  if (!(item instanceof z.ZodObject)) return []
  return Object.entries(item.shape).flatMap(([name, member]) => (member instanceof z.ZodOptional ? [] : [name]))
}

/** What a success can be answered as, the first one where nothing is asked for; empty where it has no body. */
export function mediaTypesOf(route: Route): readonly string[] {
  if (itemSchemaOf(route) !== undefined) return listMediaTypes
  const types = Object.entries(route.answers).flatMap(([status, { schema, mediaType, alternatives = [] }]) =>
    Number(status) < 300 && (schema !== undefined || mediaType !== undefined)
      ? [mediaType ?? 'application/json', ...alternatives]
      : [],
  )
  return [...new Set(types)]
}

/** A cell of a CSV (RFC 4180); objects and lists of them stand in it as JSON, lists of words with spaces between. */
export function csvCell(value: unknown): string {
  const plain = csvText(value)
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}

/** What a cell of a CSV holds before it is quoted. */
export function csvText(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (Array.isArray(value) && value.every((word) => typeof word === 'string')) return value.join(' ')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
