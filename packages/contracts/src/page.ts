import { z } from 'zod'
import { listedAddressPattern, momentSchema, resourceAddressSchema, uuidSchema } from './common.ts'
import { onceOrRepeated, patternOf, patternOfWords, withCommas } from './several-values.ts'

const maxLimit = 1000

/** The form of a list, for clients that cannot send `Accept` or read headers. */
export const formQuery = {
  format: z.enum(['json', 'ndjson', 'csv', 'xlsx']).optional().meta({
    description:
      'The form of the list, instead of `Accept`: pages of JSON, or the whole list as NDJSON, CSV or an Excel workbook',
  }),
  envelope: z.enum(['true', 'false']).optional().meta({
    description:
      '`true` returns an object with the page as `items`, and `next`, `next_cursor` and `total` (with `count=true`) beside it, instead of an array with headers',
  }),
}

export const csvQuery = {
  csv: z.enum(['excel']).optional().meta({
    description:
      '`excel` begins a CSV with a byte order mark, so that Excel reads it as UTF-8, and leaves texts unchanged unless `formulas=escape`',
  }),
  separator: z.enum(['comma', 'semicolon', 'tab']).optional().meta({
    description:
      'Between the cells of a CSV. Default: `comma`. Excel expects `semicolon` where numbers have a decimal comma',
  }),
  formulas: z.enum(['escape', 'keep']).optional().meta({
    description:
      '`escape` puts an apostrophe before texts of a CSV that a spreadsheet would treat as formulas. Default: `escape`; with `csv=excel` `keep`',
  }),
}

export const pageQuery = {
  limit: z
    .string()
    .refine((digits) => /^[1-9][0-9]{0,3}$/.test(digits), { message: 'must be a number from 1 to 1000' })
    .transform(Number)
    .pipe(z.int().max(maxLimit))
    .default(100)
    .meta({
      type: 'integer',
      minimum: 1,
      maximum: maxLimit,
      description: `Resources per page, 1 to ${maxLimit}`,
    }),
  cursor: z
    .string()
    .min(1)
    .max(2048)
    .optional()
    .meta({ description: 'Opaque position from the Link header of the previous page' }),
  count: z.enum(['true', 'false']).optional().meta({ description: '`true` adds X-Total-Count to a JSON page' }),
  ...formQuery,
  ...csvQuery,
}

export const maxExpanded = 100

export const mostExpanded = { one: 200, listed: 20 } as const

export const expandedPages = `Only for JSON pages of up to ${maxExpanded} resources; NDJSON, CSV and workbooks contain no related resources`

const expandedMembers: Readonly<Record<string, readonly string[]>> = {
  finding_counts: ['open_findings', 'archived_with_open_findings'],
}

export function membersOf(expansion: string): readonly string[] {
  return expandedMembers[expansion] ?? [expansion]
}

const maxFields = 100

function listOfWords(values: readonly string[], most: number) {
  return onceOrRepeated(most, () => {
    const one = z.enum(values)
    return most === 1 ? { one } : { one, commas: withCommas(patternOfWords(values), most) }
  })
}

function split(given: string | readonly string[]): string[] {
  return [given].flat().flatMap((part) => part.split(','))
}

export function fieldsOf(item: z.ZodObject) {
  const names = Object.keys(item.shape)
  return listOfWords(names, maxFields)
    .transform(split)
    .pipe(z.array(z.enum(names)).min(1).max(maxFields))
    .optional()
    .meta({
      description:
        'Returns only these members and those of `expand`; comma-separated. Members that are otherwise required can be absent',
      examples: [names.includes('id') ? 'id' : (names[0] ?? '')],
    })
}

export function anyOf<const T extends readonly [string, ...string[]]>(values: T) {
  return listOfWords(values, values.length)
    .transform(split)
    .pipe(z.array(z.enum(values)).min(1).max(values.length))
    .meta({ description: 'Any of these values; repeated or comma-separated', examples: [values[0]] })
}

export const nextUpdatedSinceHeader = 'Postern-Next-Updated-Since'

const safetyLagMs = 30_000

/** A time and a position of the feed, as the header hands them out. */
const feedMark = z
  .string()
  .regex(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z_(?:0|[1-9][0-9]{0,17})$/)
  .refine((mark) => momentSchema.safeParse(mark.slice(0, mark.indexOf('_'))).success)

/** Changes from 30 seconds earlier are included, because a change has the start time of its transaction. */
export const updatedSince = z
  .union([momentSchema, feedMark], { error: 'must be a time, or a value of Postern-Next-Updated-Since' })
  .transform((given) => {
    const [moment = '', position] = given.split('_', 2)
    const earliest = Date.parse('0001-01-01T00:00:00Z')
    const from = new Date(Math.max(Date.parse(moment) - safetyLagMs, earliest)).toISOString()
    return position === undefined ? from : `${from}_${position}`
  })
  .optional()
  .meta({
    description: `Changed since an earlier request: pass the \`${nextUpdatedSinceHeader}\` of its response. You miss no change, and can get some twice. A time also works: changed at this time or later, or in the 30 seconds before it`,
  })

export interface UpdatedSince {
  /** RFC 3339, 30 seconds earlier than the client sent. */
  readonly from: string
  /** Of the change feed. */
  readonly position: string | undefined
}

export function parseUpdatedSince(parsed: string): UpdatedSince {
  const [from = '', position] = parsed.split('_', 2)
  return { from, position }
}

/** Repeated or comma-separated texts; any may match. A text with commas is also matched as a whole. */
export function textFilter(item: z.ZodType<string, string>, description: string) {
  return onceOrRepeated(maxIds, () => {
    const pattern = patternOf(item)
    if (pattern === undefined) return { one: z.string().min(1) }
    // If the classes matched commas, nesting them would be exponential.
    const isFree = new RegExp(`^(?:${pattern})$`, 'u').test('a,b')
    const each = isFree ? pattern.replaceAll('[^', '[^,') : pattern
    const several = `(?:\\s*,)*(?:${each})(?:,(?:${each}|\\s*))*`
    return { one: item, commas: z.string().meta({ pattern: `^(?:${several})$` }) }
  })
    .transform((given) => [...new Set([given].flat().flatMap((text) => readingsOf(text, item)))])
    .pipe(z.array(item).min(1).max(maxIds))
    .optional()
    .meta({ description: `${description}; up to ${maxIds}, repeated or comma-separated` })
}

export const ownerFilterText = 'Id, e-mail address or name of a person: each finds the same, for at most 1000 people'

/** Repeated keys; any may match. Commas belong to the keys. */
export function keyFilter(item: z.ZodType<string, string>, description: string) {
  return onceOrRepeated(maxIds, () => ({ one: item }))
    .transform((given) => [...new Set([given].flat())])
    .pipe(z.array(item).min(1).max(maxIds))
    .optional()
    .meta({ description: `${description}; up to ${maxIds}, repeated` })
}

function readingsOf(text: string, item: z.ZodType<string, string>): string[] {
  const parts = text.split(',').filter((part) => part.trim() !== '')
  if (parts.length === 0 || !text.includes(',')) return [text]
  return item.safeParse(text).success ? [text, ...parts] : parts
}

export function addressFilter(description: string) {
  return onceOrRepeated(maxIds, () => ({
    one: z.string().meta({ pattern: `^(?:${listedAddressPattern})$` }),
    commas: withCommas(listedAddressPattern, maxIds),
  }))
    .transform(split)
    .pipe(z.array(resourceAddressSchema).min(1).max(maxIds))
    .optional()
    .meta({
      description: `${description}; up to ${maxIds} ids, \`ref:\` or \`ext:\` addresses, repeated or comma-separated`,
    })
}

const maxIds = 100

export function idFilter(description: string) {
  return onceOrRepeated(maxIds, () => ({ one: uuidSchema, commas: withCommas(patternOf(uuidSchema) ?? '', maxIds) }))
    .transform(split)
    .pipe(z.array(uuidSchema).min(1).max(maxIds))
    .optional()
    .meta({
      description: `${description}; up to ${maxIds} ids, repeated or comma-separated`,
    })
}
