import { z } from 'zod'
import type { Route } from './route.ts'

export const linesMediaType = 'application/x-ndjson'

/** A page of a list with what the headers say: for clients that see only bodies. */
export const pageMediaType = 'application/vnd.postern.page+json'

/** ECMA-376. */
export const workbookMediaType = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'

/** RFC 4180 for CSV. */
export const listMediaTypes = [
  'application/json',
  linesMediaType,
  'text/csv',
  workbookMediaType,
  pageMediaType,
] as const

const formats: Readonly<Record<string, string>> = {
  json: 'application/json',
  ndjson: linesMediaType,
  csv: 'text/csv',
  xlsx: workbookMediaType,
}

/** Undefined: the client names none in the query, so `Accept` decides. */
export function requestedMediaType(query: unknown): string | undefined {
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

/** A column of a list as a table: a member of its items, or a part of one. */
export interface TableColumn {
  readonly name: string
  readonly member: string
  readonly part: string | undefined
  readonly kind: 'date' | 'time' | undefined
}

/** An object of plain values has a column for each of them behind its own, such as `owner_name`. */
export function tableColumnsOf(route: Route): readonly TableColumn[] {
  const item = itemSchemaOf(route)
  if (!(item instanceof z.ZodObject)) return []
  const listed = Object.entries(item.shape).flatMap(([name, schema]) => (schema instanceof z.ZodOptional ? [] : [name]))
  return (route.csvColumns ?? listed).flatMap((member) => {
    const schema = valueSchema(item.shape[member])
    const own = { name: member, member, part: undefined, kind: dateKindOf(schema) }
    return [
      own,
      ...partsOf(schema).map(([part, value]) => ({ name: `${member}_${part}`, member, part, kind: dateKindOf(value) })),
    ]
  })
}

export function columnsOf(route: Route): readonly string[] {
  return tableColumnsOf(route).map(({ name }) => name)
}

function partsOf(schema: unknown): readonly (readonly [string, unknown])[] {
  if (!(schema instanceof z.ZodObject)) return []
  const parts = Object.entries(schema.shape).map(([part, value]) => [part, valueSchema(value)] as const)
  return parts.every(([, value]) => isPlain(value)) ? parts : []
}

function isPlain(schema: unknown): boolean {
  return !(schema instanceof z.ZodObject || schema instanceof z.ZodArray || schema instanceof z.ZodRecord)
}

function valueSchema(schema: unknown): unknown {
  return schema instanceof z.ZodNullable || schema instanceof z.ZodOptional ? valueSchema(schema.unwrap()) : schema
}

function dateKindOf(schema: unknown): TableColumn['kind'] {
  if (schema instanceof z.ZodISODate) return 'date'
  return schema instanceof z.ZodISODateTime ? 'time' : undefined
}

export function cellOf(item: object, { member, part }: TableColumn): unknown {
  const value: unknown = Reflect.get(item, member)
  if (part === undefined) return value
  return typeof value === 'object' && value !== null ? Reflect.get(value, part) : undefined
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
