import { z } from 'zod'
import { line, lines, timestampSchema, uuidSchema } from '../common.ts'

export const userUrn = 'urn:ietf:params:scim:schemas:core:2.0:User'
export const groupUrn = 'urn:ietf:params:scim:schemas:core:2.0:Group'
export const enterpriseUrn = 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'
export const listUrn = 'urn:ietf:params:scim:api:messages:2.0:ListResponse'
export const patchUrn = 'urn:ietf:params:scim:api:messages:2.0:PatchOp'

export const maxScimCount = 200
export const maxScimMembers = 20_000

/** Case-insensitive names (RFC 7643 §2.1) that must not repeat. */
function ignoreCaseOfNames<Shape extends z.ZodRawShape>(shape: Shape) {
  const names = new Map(Object.keys(shape).map((name) => [name.toLowerCase(), name]))
  return z.preprocess((value, { addIssue }) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
    const members = new Map<string, unknown>()
    for (const [given, member] of Object.entries(value)) {
      const name = names.get(given.toLowerCase()) ?? given
      if (members.has(name)) {
        const message = 'must occur once: names are case-insensitive'
        addIssue({ code: 'custom', path: [given], message, params: { code: 'invalidSyntax' }, input: value })
      }
      members.set(name, member)
    }
    return Object.fromEntries(members)
  }, z.object(shape))
}

/**
 * Accepts one value for a list, and drops null from a list, because some providers send these. A text stands for an
 * object with only `textPart`.
 */
function acceptSingleValues<List extends z.ZodType>(list: List, textPart?: string) {
  return z.preprocess((value) => scimValues(value, textPart), list)
}

export function scimValues(value: unknown, textPart?: string): unknown {
  if (value === undefined) return value
  const items: readonly unknown[] = Array.isArray(value) ? value : [value]
  const given = items.filter((item) => item !== null)
  return textPart === undefined ? given : given.map((item) => (typeof item === 'string' ? { [textPart]: item } : item))
}

/** RFC 7643 §2.3.1 allows several lines in any text. */
const word = lines(0, 255).nullish()
/** Some providers send "True" and "False" (RFC 7643 §2.3.2). */
const flag = z.union([z.boolean(), z.stringbool({ truthy: ['true'], falsy: ['false'] })]).nullish()
const schemas = acceptSingleValues(z.array(line(1, 255)).max(10)).nullish()

const plural = { value: word, display: word, type: lines(0, 64).nullish(), primary: flag }
/** Longer than any valid address, so that an invalid one does not reject the user. */
const address = { ...plural, value: lines(0, 1000).nullish() }

const nameParts = {
  formatted: word,
  familyName: word,
  givenName: word,
  middleName: word,
  honorificPrefix: word,
  honorificSuffix: word,
}
const addressParts = {
  formatted: lines(0, 1000).nullish(),
  streetAddress: lines(0, 1000).nullish(),
  locality: word,
  region: word,
  postalCode: word,
  country: word,
  type: lines(0, 64).nullish(),
  primary: flag,
}
const managerParts = { value: word, displayName: word }

const userWords = {
  displayName: word,
  nickName: word,
  profileUrl: line(0, 1000).nullish(),
  title: word,
  userType: word,
  preferredLanguage: word,
  locale: word,
  timezone: word,
}
const enterpriseWords = {
  employeeNumber: word,
  costCenter: word,
  organization: word,
  division: word,
  department: word,
}

/** Some providers send only the manager's id. */
const managerSchema = z
  .union([ignoreCaseOfNames(managerParts), line(0, 255).transform((value) => ({ value }))])
  .nullish()

/** RFC 7643 §3.1. */
export const scimUserInputSchema = ignoreCaseOfNames({
  schemas,
  userName: line(1, 255),
  externalId: line(1, 255).nullish(),
  ...userWords,
  name: ignoreCaseOfNames(nameParts).nullish(),
  active: flag,
  emails: acceptSingleValues(z.array(ignoreCaseOfNames(address)).max(50), 'value').nullish(),
  phoneNumbers: acceptSingleValues(z.array(ignoreCaseOfNames(plural)).max(50), 'value').nullish(),
  addresses: acceptSingleValues(z.array(ignoreCaseOfNames(addressParts)).max(50), 'formatted').nullish(),
  [enterpriseUrn]: ignoreCaseOfNames({ ...enterpriseWords, manager: managerSchema }).nullish(),
}).meta({
  id: 'ScimUserInput',
  examples: [
    {
      schemas: [userUrn, enterpriseUrn],
      userName: 'ada.lund@harbourline.example',
      externalId: 'f2a1c0de',
      name: { givenName: 'Ada', familyName: 'Lund' },
      emails: [{ value: 'ada.lund@harbourline.example', primary: true }],
      active: true,
      [enterpriseUrn]: { department: 'Treasury', division: 'Finance' },
    },
  ],
})
export type ScimUserInput = z.output<typeof scimUserInputSchema>

const metaSchema = z
  .object({
    resourceType: z.string(),
    created: timestampSchema,
    lastModified: timestampSchema,
    location: z.string(),
    version: z.string(),
  })
  .partial()

const optional = z.string().optional()
const pluralOut = z.array(
  z.object({ value: optional, display: optional, type: optional, primary: z.boolean().optional() }),
)

/** `attributes` can omit everything except the id. */
export const scimUserSchema = z
  .object({
    schemas: z.array(z.string()),
    id: uuidSchema,
    externalId: optional,
    meta: metaSchema.optional(),
    userName: optional,
    displayName: optional,
    nickName: optional,
    profileUrl: optional,
    title: optional,
    userType: optional,
    preferredLanguage: optional,
    locale: optional,
    timezone: optional,
    name: z
      .object({
        formatted: optional,
        familyName: optional,
        givenName: optional,
        middleName: optional,
        honorificPrefix: optional,
        honorificSuffix: optional,
      })
      .optional(),
    active: z.boolean().optional(),
    emails: pluralOut.optional(),
    phoneNumbers: pluralOut.optional(),
    addresses: z
      .array(
        z.object({
          formatted: optional,
          streetAddress: optional,
          locality: optional,
          region: optional,
          postalCode: optional,
          country: optional,
          type: optional,
          primary: z.boolean().optional(),
        }),
      )
      .optional(),
    [enterpriseUrn]: z
      .object({
        employeeNumber: optional,
        costCenter: optional,
        organization: optional,
        division: optional,
        department: optional,
        manager: z.object({ value: optional, displayName: optional }).optional(),
      })
      .optional(),
  })
  .meta({ id: 'ScimUser' })
export type ScimUser = z.infer<typeof scimUserSchema>

export const scimResourceSchema = z
  .looseObject({ schemas: z.array(z.string()), id: uuidSchema })
  .meta({ id: 'ScimResource', description: 'A user or a group, as their own lists return it' })

const memberInput = ignoreCaseOfNames({ value: uuidSchema, display: word, type: word })

export const scimGroupInputSchema = ignoreCaseOfNames({
  schemas,
  displayName: line(1, 255),
  externalId: line(1, 255).nullish(),
  members: acceptSingleValues(z.array(memberInput).max(maxScimMembers), 'value').nullish(),
}).meta({ id: 'ScimGroupInput', examples: [{ schemas: [groupUrn], displayName: 'Internal audit', members: [] }] })
export type ScimGroupInput = z.output<typeof scimGroupInputSchema>

export const scimGroupSchema = z
  .object({
    schemas: z.array(z.string()),
    id: uuidSchema,
    externalId: optional,
    meta: metaSchema.optional(),
    displayName: optional,
    members: z
      .array(
        // Readers of JSON Schema treat a member named `$ref` as a reference.
        z
          .looseObject({
            value: uuidSchema.optional(),
            display: optional,
            type: z.enum(['User', 'Group']).optional(),
          })
          .meta({ description: 'Also has `$ref`, the URL of the member' }),
      )
      .optional(),
  })
  .meta({ id: 'ScimGroup' })
export type ScimGroup = z.infer<typeof scimGroupSchema>

/** Some providers leave the schemas out. */
function schemasWith(urn: string) {
  const urns = z.array(z.string().max(255)).max(10)
  return acceptSingleValues(urns.refine((given) => given.includes(urn), { message: `must contain ${urn}` })).nullish()
}

/** RFC 7644 §3.5.2. Some providers capitalize the operations. */
export const scimPatchSchema = ignoreCaseOfNames({
  schemas: schemasWith(patchUrn),
  Operations: acceptSingleValues(
    z
      .array(
        ignoreCaseOfNames({
          op: z.string().regex(/^(?:add|remove|replace)$/i, { message: 'must be add, remove or replace' }),
          // Some providers send null or an empty text.
          path: line(0, 1000)
            .nullish()
            .transform((path) => path || undefined),
          value: z.unknown().optional(),
        }),
      )
      .min(1)
      .max(1000),
  ),
}).meta({
  id: 'ScimPatch',
  examples: [{ schemas: [patchUrn], Operations: [{ op: 'replace', path: 'active', value: false }] }],
})
export const scimGroupPatchSchema = scimPatchSchema.meta({
  id: 'ScimGroupPatch',
  examples: [{ schemas: [patchUrn], Operations: [{ op: 'replace', path: 'displayName', value: 'Internal audit' }] }],
})
export type ScimPatch = z.output<typeof scimPatchSchema>

export const searchUrn = 'urn:ietf:params:scim:api:messages:2.0:SearchRequest'

const attributeName = z
  .string()
  .max(255)
  .regex(/^[A-Za-z0-9:._$-]*$/, { message: 'must be the name of an attribute' })
const attributeNames = acceptSingleValues(z.array(attributeName).max(100)).nullish()
/** Some clients send numbers as text. */
const pageNumber = z
  .union([z.int(), z.string().regex(/^-?[0-9]{1,15}$/, { message: 'must be a whole number of at most 15 digits' })])
  .nullish()

export const scimSearchSchema = ignoreCaseOfNames({
  schemas: schemasWith(searchUrn),
  attributes: attributeNames,
  excludedAttributes: attributeNames,
  filter: z.string().max(2000).nullish(),
  sortBy: attributeName.nullish(),
  sortOrder: z.enum(['ascending', 'descending']).nullish(),
  startIndex: pageNumber,
  count: pageNumber,
}).meta({
  id: 'ScimSearch',
  examples: [{ schemas: [searchUrn], filter: 'userName eq "ada.lund@harbourline.example"', startIndex: 1, count: 10 }],
})
export type ScimSearch = z.output<typeof scimSearchSchema>

function listOf<Resource extends z.ZodType>(id: string, resource: Resource) {
  return z
    .object({
      schemas: z.array(z.literal(listUrn)),
      totalResults: z.int(),
      startIndex: z.int(),
      itemsPerPage: z.int(),
      Resources: z.array(resource),
    })
    .meta({ id })
}

export const scimDescriptionSchema = z
  .record(z.string(), z.json())
  .meta({ id: 'ScimDescription', description: 'RFC 7643 §5 to §7' })

export const scimUserListSchema = listOf('ScimUserList', scimUserSchema)
export const scimGroupListSchema = listOf('ScimGroupList', scimGroupSchema)
export const scimResourceListSchema = listOf('ScimResourceList', scimResourceSchema)
export const scimDescriptionListSchema = listOf('ScimDescriptionList', scimDescriptionSchema)
