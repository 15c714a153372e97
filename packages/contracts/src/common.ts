import { z } from 'zod'
import { emailSchema, sentEmailSchema } from './email.ts'
import { namedScopes } from './scope.ts'

/** A UUID in lower case. Postern creates version 7 (RFC 9562). */
export const uuidSchema = z
  .uuid()
  .toLowerCase()
  .meta({ examples: ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'] })

/** RFC 3339 in UTC with milliseconds. */
export const timestampSchema = z.iso.datetime({ precision: 3 }).meta({ examples: ['2026-11-21T09:30:00.000Z'] })

/** `YYYY-MM-DD`. PostgreSQL has no year 0. */
export const dateSchema = z.iso
  .date()
  .refine((date) => !date.startsWith('0000'), { message: 'must be in the year 0001 or later' })
  .meta({ examples: ['2026-11-21'] })

/** RFC 3339 with a realistic offset, in the years 0001 to 9999 of UTC. `t` and `z` may be in lower case. */
export const momentSchema = z
  .string()
  .toUpperCase()
  .datetime({ offset: true, abort: true })
  .refine((moment) => /^(?!0000)[0-9]{4}-/.test(isoOf(moment)), {
    message: 'must be in the years 0001 to 9999 of UTC',
  })
  // PostgreSQL has offsets up to 15:59; no clock is further from UTC than 14 hours.
  .refine((moment) => /(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])$/.test(moment), {
    message: 'must have an offset of less than 15 hours',
  })
  .meta({ examples: ['2026-11-21T10:30:00+01:00'] })

function isoOf(moment: string): string {
  const time = Date.parse(moment)
  return Number.isNaN(time) ? '' : new Date(time).toISOString()
}

const withoutNul = new RegExp(String.raw`^[^\x00]*$`)

/** Text without NUL and lone surrogates, which PostgreSQL and UTF-8 cannot store. */
export function text(min: number, max: number) {
  return z
    .string()
    .min(min)
    .max(max)
    .regex(withoutNul, 'must not contain NUL or lone surrogates')
    .refine((value) => value.isWellFormed(), { message: 'must not contain NUL or lone surrogates' })
}

/** Text with more than white space, which for PostgreSQL includes U+0085. */
export function nonBlankText(max: number) {
  return text(1, max).regex(/[^\s\u0085]/, 'must not be blank')
}

function plainLine(min: number, max: number) {
  return z
    .string()
    .min(min)
    .max(max)
    .regex(/^(?:[^\p{Cc}\p{Cs}\u2027-\u202f\u2065-\u206a]|[\u2027\u202f])*$/u, 'must not contain control characters')
}

/** One line of text: trimmed, without control characters. */
export function line(min: number, max: number) {
  return z
    .string()
    .transform((value) => value.trim())
    .pipe(plainLine(min, max))
    .meta({ minLength: min, maxLength: max, pattern: linePattern(min) })
}

// Ranges end beside line separators and bidirectional controls, which the code of a generated client must not contain.
const controls = String.raw`\x00-\x1f\x7f-\x9f` + '\u2027-\u202f\u2065-\u206a'

/** The pattern of `line` before trimming, for regular expressions of any language. */
function linePattern(min: number): string {
  const said = `(?:[^${controls}\\s]|\u2027)(?:[^${controls}]|[\u2027\u202f])*(?:[\\t-\\r]\\s*)?`
  return min === 0 ? `^\\s*(?:${said})?$` : `^\\s*${said}$`
}

/** Trimmed lines of text, without control characters except tabs and line breaks. */
export function lines(min: number, max: number) {
  return z
    .string()
    .transform((value) => value.trim())
    .pipe(
      z
        .string()
        .min(min)
        .max(max)
        .regex(
          /^(?:[^\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]|[\t\n\v\f\r\u0085])*$/u,
          'must not contain control characters',
        ),
    )
    .meta({ minLength: min, maxLength: max })
}

const lineBreak = /[\t\n\v\f\r\u0085\u2028\u2029]/

export function inOneLine(value: string): string {
  return value.replaceAll(/[\s\u0085]+/g, (space) => (lineBreak.test(space) ? ' ' : space)).trim()
}

/** A member that can be absent. Null means the same, so that clients can send what they have read. */
export function optionalOrNull<S extends z.ZodType>(schema: S) {
  return schema
    .nullable()
    .transform((value) => value ?? undefined)
    .optional()
}

type OrNull<S extends z.ZodRawShape> = {
  [Name in keyof S]: S[Name] extends z.ZodOptional<infer Inner extends z.ZodType>
    ? ReturnType<typeof optionalOrNull<Inner>>
    : S[Name]
}

/** The members of an object. Those that can be absent can be null, too. */
export function withNulls<S extends z.ZodRawShape>(shape: S): OrNull<S>
export function withNulls(shape: z.ZodRawShape): z.ZodRawShape {
  return Object.fromEntries(
    Object.entries(shape).map(([name, member]) => {
      const inner = member instanceof z.ZodOptional ? member.unwrap() : undefined
      if (!(inner instanceof z.ZodType) || !(member instanceof z.ZodType)) return [name, member]
      return [name, optionalOrNull(inner).meta(member.meta() ?? {})]
    }),
  )
}

/** Unique for the tenant and the kind of resource. */
export const externalIdSchema = line(1, 255)

function isNamed(person: { person_id?: unknown; email?: unknown; name?: unknown }): boolean {
  return person.person_id !== undefined || person.email !== undefined || person.name !== undefined
}
const mustBeNamed = { message: 'must name a person by person_id, email or name' }

export const personRefSchema = z
  .strictObject({
    person_id: uuidSchema.optional(),
    email: emailSchema.optional(),
    name: line(1, 255).optional(),
  })
  .refine(isNamed, mustBeNamed)
  .meta({
    id: 'Person reference',
    minProperties: 1,
    description:
      'In findings and action plans, `person_id` must be one of the tenant’s people, active or not. Synced rows and collectors of evidence are stored as sent. An `email` that matches no person is stored.',
    examples: [{ email: 'ada.lund@harbourline.example', name: 'Ada Lund' }],
  })
export type PersonRef = z.infer<typeof personRefSchema>

export const sentPersonRefSchema = z
  .strictObject({
    person_id: uuidSchema.optional(),
    email: sentEmailSchema.optional(),
    name: line(1, 255).optional(),
  })
  .refine(isNamed, mustBeNamed)
  .meta({
    id: 'SentPersonReference',
    minProperties: 1,
    description:
      'Stored as sent. An `email` that matches no person is stored. An invalid `email` is left out with a warning; if nothing else names the person, it becomes the `name`.',
    examples: [{ email: 'ada.lund@harbourline.example', name: 'Ada Lund' }],
  })

/** A merge patch (RFC 7396) of a person. */
export const personPatchSchema = z
  .strictObject({
    person_id: uuidSchema.nullable().optional(),
    email: emailSchema.nullable().optional(),
    name: line(1, 255).nullable().optional(),
  })
  .meta({
    id: 'PersonPatch',
    description:
      'Absent members do not change, and null removes a member. The result must name a person, and a `person_id` must be one of the tenant’s people. A different `email` or `person_id` names another person, so members that the patch does not contain are removed. The same applies to a different `name` if the patch removes `email` or `person_id`.',
    examples: [{ name: 'Ada Lund-Berg' }],
  })
export type PersonPatch = z.infer<typeof personPatchSchema>

export const sentPersonPatchSchema = personPatchSchema.extend({ email: sentEmailSchema.nullable().optional() }).meta({
  id: 'SentPersonPatch',
  description:
    'As in a single change. An invalid `email` is left out with a warning; if nothing else names the person, it becomes the `name`.',
  examples: [{ name: 'Ada Lund-Berg' }],
})

/** Returns undefined if it cannot be a name. */
export function addressAsName(address: string): string | undefined {
  return line(1, 255).safeParse(inOneLine(address)).data
}

/** `system` is Postern, for example at the end of a period. */
export const createdBySchema = z
  .object({
    type: z.enum(['api_key', 'user', 'machine', 'operator', 'connector', 'system']),
    id: z.string(),
    label: z.string(),
  })
  .meta({ id: 'Actor' })
export type CreatedBy = z.infer<typeof createdBySchema>

/** Not trimmed, because two names could become the same. */
const customName = plainLine(1, 64).refine((name) => name === name.trim(), {
  message: 'must not begin or end with white space',
})

export const customSchema = z
  .record(customName, z.union([text(0, 4000), z.number(), z.boolean(), z.null()]))
  .refine((fields) => Object.keys(fields).length <= 50, { message: 'must have at most 50 fields' })
  .meta({ id: 'CustomFields', maxProperties: 50 })

export const namedScopeSchema = z.enum(namedScopes)

const externalAddresses = [
  z.string().regex(/^ext:[^\p{Cc}]{1,255}$/u),
  z
    .string()
    .regex(/^ext64:[A-Za-z0-9_-]{2,1020}$/)
    .refine((address) => externalIdOf64(address) !== undefined),
] as const

/** `ext64:` carries external ids with characters that a path cannot contain. */
export const resourceAddressSchema = z
  .union([uuidSchema, z.string().regex(/^ref:[A-Z]{1,4}-[0-9A-Z.-]{1,40}$/), ...externalAddresses], {
    error: 'must be an id, `ref:` and a reference, or `ext:` and an external id',
  })
  .meta({
    description:
      'An id, `ref:` and a reference, or `ext:` and an external id. `ext64:` and the external id in base64url (RFC 4648 §5, no padding) for one with `/`, `\\`, `%` or `;`',
  })

/** The pattern of an address in a comma-separated list, where an external id with a comma needs `ext64:`. */
export const listedAddressPattern: string = [
  '[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}',
  'ref:[A-Z]{1,4}-[0-9A-Z.-]{1,40}',
  String.raw`ext:[^\p{Cc},]{1,255}`,
  'ext64:[A-Za-z0-9_-]{2,1020}',
].join('|')

const unnumberedAddress = { error: 'must be an id, or `ext:` and an external id' }
export const unnumberedAddressSchema = z.union([uuidSchema, ...externalAddresses], unnumberedAddress).meta({
  description:
    'An id, or `ext:` and an external id. `ext64:` and the external id in base64url (RFC 4648 §5, no padding) for one with `/`, `\\`, `%` or `;`',
})

/** Returns undefined unless the address is canonical UTF-8 of 1 to 255 characters. */
function externalIdOf64(address: string): string | undefined {
  const encoded = address.slice('ext64:'.length)
  const bytes = Buffer.from(encoded, 'base64url')
  const externalId = bytes.toString('utf8')
  const isExact = bytes.toString('base64url') === encoded && Buffer.from(externalId, 'utf8').equals(bytes)
  return isExact && /^[^\p{Cc}]{1,255}$/u.test(externalId) ? externalId : undefined
}

export type ResourceAddress =
  | { readonly by: 'id'; readonly id: string }
  | { readonly by: 'reference'; readonly reference: string }
  | { readonly by: 'external-id'; readonly externalId: string }

/** Parses an address that `resourceAddressSchema` accepted. External ids are in NFC. */
export function parseResourceAddress(address: string): ResourceAddress {
  if (address.startsWith('ref:')) return { by: 'reference', reference: address.slice(4) }
  if (address.startsWith('ext:')) return { by: 'external-id', externalId: address.slice(4) }
  if (address.startsWith('ext64:'))
    return { by: 'external-id', externalId: externalIdOf64(address)?.normalize('NFC') ?? '' }
  return { by: 'id', id: address }
}
