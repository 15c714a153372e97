import { z } from 'zod'

/** Query parameters that every list takes. A list answers with a bare array; the next page is in `Link` (RFC 8288). */
export const pageQuery = {
  limit: z.coerce
    .number()
    .pipe(z.int().min(1).max(1000))
    .default(100)
    .meta({ description: 'Resources a page, 1 to 1000' }),
  cursor: z
    .string()
    .min(1)
    .max(2048)
    .optional()
    .meta({ description: 'Opaque, from the Link header of the page before' }),
  count: z.enum(['true', 'false']).optional().meta({ description: '`true` adds X-Total-Count' }),
}

/**
 * A filter that takes several values, repeated or comma-separated, meaning any of them. `values` are the allowed words.
 */
export function anyOf<const T extends readonly [string, ...string[]]>(values: T) {
  return z
    .union([z.string(), z.array(z.string())])
    .transform((given) => (Array.isArray(given) ? given : [given]).flatMap((part) => part.split(',')))
    .pipe(z.array(z.enum(values)).min(1).max(values.length))
    .meta({ description: `Any of: ${values.join(', ')}; repeated or comma-separated` })
}
