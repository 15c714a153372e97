import { z } from 'zod'
import type { Route } from './route.ts'

export const linesMediaType = 'application/x-ndjson'

/** RFC 4180 for CSV. */
export const listMediaTypes = ['application/json', linesMediaType, 'text/csv'] as const

/** Undefined if the route is not a paged list. */
export function itemSchemaOf(route: Route): z.ZodType | undefined {
  if (route.method !== 'GET' || route.query?.shape['cursor'] === undefined) return undefined
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
