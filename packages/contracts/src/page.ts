import { z } from 'zod'
import { uuidSchema } from './common.ts'

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
  count: z.enum(['true', 'false']).optional().meta({ description: '`true` adds X-Total-Count' }),
}

/** Most resources of a page whose resources are expanded. */
export const maxExpanded = 100

/** What the document says of `expand` on a list. */
export const expandedPages = `Pages of JSON of up to ${maxExpanded} alone: NDJSON and CSV hold the list by itself`

/** The member that an expansion adds, where it is not called as the expansion is. */
const expandedMembers: Readonly<Record<string, string>> = { finding_counts: 'open_findings' }

/** The member of an answer that a word of `expand` adds. */
export function memberOf(expansion: string): string {
  return expandedMembers[expansion] ?? expansion
}

/**
 * The parameter `fields` of a route that answers with items of a kind, or with one: which of their members the answer
 * shall hold. The kit leaves the others out.
 */
export function fieldsOf(item: z.ZodObject) {
  const names = Object.keys(item.shape)
  return z
    .union([z.string(), z.array(z.string())])
    .transform((given) => (Array.isArray(given) ? given : [given]).flatMap((part) => part.split(',')))
    .pipe(z.array(z.enum(names)).min(1).max(100))
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
  return z
    .union([z.string(), z.array(z.string())])
    .transform((given) => (Array.isArray(given) ? given : [given]).flatMap((part) => part.split(',')))
    .pipe(z.array(z.enum(values)).min(1).max(values.length))
    .meta({ description: `Any of: ${values.join(', ')}; repeated or comma-separated`, examples: [values[0]] })
}

/** Ids that one filter takes. */
const maxIds = 100

/** A filter that takes several ids, repeated or comma-separated, meaning any of them. */
export function anyId(description: string) {
  return z
    .union([z.string(), z.array(z.string())])
    .transform((given) => (Array.isArray(given) ? given : [given]).flatMap((part) => part.split(',')))
    .pipe(z.array(uuidSchema).min(1).max(maxIds))
    .optional()
    .meta({ description: `${description}; up to ${maxIds} ids, repeated or comma-separated` })
}
