import { z } from 'zod'
import { listedAddressPattern, momentSchema, resourceAddressSchema, uuidSchema } from './common.ts'
import { onceOrRepeated, patternOf, patternOfWords, withCommas } from './several-values.ts'

const maxLimit = 1000

/** Query parameters that every list takes. A list answers with a bare array; the next page is in `Link` (RFC 8288). */
export const pageQuery = {
  limit: z
    .string()
    .refine((digits) => /^[1-9][0-9]{0,3}$/.test(digits), { message: 'must be a number from 1 to 1000' })
    .transform(Number)
    .pipe(z.int().max(maxLimit))
    .default(100)
    // What a query carries is a text; the document says what that text stands for.
    .meta({
      type: 'integer',
      minimum: 1,
      maximum: maxLimit,
      description: `Resources a page, 1 to ${maxLimit}`,
    }),
  cursor: z
    .string()
    .min(1)
    .max(2048)
    .optional()
    .meta({ description: 'Opaque, from the Link header of the page before' }),
  count: z.enum(['true', 'false']).optional().meta({ description: '`true` adds X-Total-Count to a page of JSON' }),
  csv: z.enum(['excel']).optional().meta({
    description:
      '`excel` begins a CSV with a byte order mark, by which Excel reads it as UTF-8. It changes nothing else, and nothing of JSON or NDJSON',
  }),
}

/** Most resources of a page whose resources are expanded. */
export const maxExpanded = 100

/** What an expansion holds of each kind at most: beside one resource, and beside each of a list. */
export const mostExpanded = { one: 200, listed: 20 } as const

/** What the document says of `expand` on a list. */
export const expandedPages = `Pages of JSON of up to ${maxExpanded} alone: NDJSON and CSV hold the list by itself`

/** The members that an expansion adds, where it is not one that is called as the expansion is. */
const expandedMembers: Readonly<Record<string, readonly string[]>> = {
  finding_counts: ['open_findings', 'archived_with_open_findings'],
}

/** The members of an answer that a word of `expand` adds. */
export function membersOf(expansion: string): readonly string[] {
  return expandedMembers[expansion] ?? [expansion]
}

/** Most names that `fields` takes. */
const maxFields = 100

/** One of some words, or several. */
function words(values: readonly string[], most: number) {
  return onceOrRepeated(most, () => {
    const one = z.enum(values)
    return most === 1 ? { one } : { one, commas: withCommas(patternOfWords(values), most) }
  })
}

function split(given: string | readonly string[]): string[] {
  return [given].flat().flatMap((part) => part.split(','))
}

/**
 * The parameter `fields` of a route that answers with items of a kind, or with one: which of their members the answer
 * shall hold. The kit leaves the others out.
 */
export function fieldsOf(item: z.ZodObject) {
  const names = Object.keys(item.shape)
  return words(names, maxFields)
    .transform(split)
    .pipe(z.array(z.enum(names)).min(1).max(maxFields))
    .optional()
    .meta({
      description:
        'Only these members, and those that `expand` adds; comma-separated. What the answer must hold otherwise may then be absent',
      examples: [names.includes('id') ? 'id' : (names[0] ?? '')],
    })
}

/**
 * A filter that takes several values, repeated or comma-separated, meaning any of them. `values` are the allowed words.
 */
export function anyOf<const T extends readonly [string, ...string[]]>(values: T) {
  return words(values, values.length)
    .transform(split)
    .pipe(z.array(z.enum(values)).min(1).max(values.length))
    .meta({ description: `Any of: ${values.join(', ')}; repeated or comma-separated`, examples: [values[0]] })
}

/** How long before `updated_since` a change may have begun that is shown all the same. */
const safetyLagMs = 30_000

/**
 * The filter `updated_since`; parsed, it is the time to compare with. A change has the time at which its transaction began,
 * so one that was committed behind a pull can be older than it: hence half a minute more is shown, some of it again.
 */
export const updatedSince = momentSchema
  .transform((moment) => {
    const earliest = Date.parse('0001-01-01T00:00:00Z')
    return new Date(Math.max(Date.parse(moment) - safetyLagMs, earliest)).toISOString()
  })
  .optional()
  .meta({
    description:
      'Changed at this time or later, or in the 30 seconds before it: give the time of the last pull, and nothing that was committed behind it is missed; what was seen before may come again. What takes longer than that to be committed, as large pushes may, is in `GET /changes`',
  })

/**
 * A filter that takes several texts, repeated or comma-separated, meaning any of them. A text that holds a comma itself is
 * looked for as a whole too.
 */
export function anyText(item: z.ZodType<string, string>, description: string) {
  return onceOrRepeated(maxIds, () => {
    const pattern = patternOf(item)
    if (pattern === undefined) return { one: z.string().min(1) }
    // Free text may hold commas itself. In a list they part the values, and its classes must not match them: nested, that is exponential.
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

/**
 * A filter that takes several keys, repeated, meaning any of them. A comma belongs to a key that may hold one: whoever asks
 * for the resource with a key is never shown another.
 */
export function anyKey(item: z.ZodType<string, string>, description: string) {
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

/** A filter that takes several addresses of resources, meaning any of them. */
export function anyAddress(description: string) {
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

/** Ids that one filter takes. */
const maxIds = 100

/** A filter that takes several ids, repeated or comma-separated, meaning any of them. */
export function anyId(description: string) {
  return onceOrRepeated(maxIds, () => ({ one: uuidSchema, commas: withCommas(patternOf(uuidSchema) ?? '', maxIds) }))
    .transform(split)
    .pipe(z.array(uuidSchema).min(1).max(maxIds))
    .optional()
    .meta({ description: `${description}; up to ${maxIds} ids, repeated or comma-separated` })
}
