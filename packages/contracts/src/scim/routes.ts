import { z } from 'zod'
import { uuidSchema } from '../common.ts'
import { defineRoute } from '../route.ts'
import { scimBase, scimMediaType } from './error.ts'
import {
  maxScimCount,
  scimDescriptionListSchema,
  scimDescriptionSchema,
  scimGroupInputSchema,
  scimGroupListSchema,
  scimGroupPatchSchema,
  scimGroupSchema,
  scimPatchSchema,
  scimResourceListSchema,
  scimSearchSchema,
  scimUserListSchema,
  scimUserInputSchema,
  scimUserSchema,
} from './resources.ts'

export * from './error.ts'
export * from './resources.ts'

const base = {
  upstream: 'sync',
  tag: 'SCIM',
  access: { kind: 'scope', scope: 'admin:sync' },
  dialect: 'scim',
} as const

const media = { mediaType: scimMediaType, alternatives: ['application/json'] } as const
const tagged = { ETag: 'The entity tag of the resource, for If-Match and If-None-Match' } as const
const bodyMediaTypes = [scimMediaType, 'application/json'] as const

/** RFC 7644 §3.4.2.4: negative numbers count as 0, and large ones as the maximum. */
const number = z.string().regex(/^-?[0-9]{1,15}$/, { message: 'must be a whole number of at most 15 digits' })
const names = z
  .string()
  .max(2000)
  .regex(/^[A-Za-z0-9:._,$\- ]*$/, { message: 'must be names of attributes, with commas between' })

/** Administrators of Entra ID can add this flag to the tenant URL. */
const flag = {
  aadOptscim062020: z
    .string()
    .max(20)
    .optional()
    .meta({ description: 'Ignored. Entra ID can send this flag for itself' }),
}
const flagQuery = z.strictObject(flag)
const projection = {
  ...flag,
  attributes: names.optional().meta({ description: 'Only these attributes, and the id' }),
  excludedAttributes: names.optional().meta({ description: 'All attributes except these' }),
}
const listQuery = z.strictObject({
  filter: z
    .string()
    .min(1)
    .max(2000)
    .optional()
    .meta({ description: 'RFC 7644 §3.4.2.2', examples: ['userName eq "ada.lund@harbourline.example"'] }),
  startIndex: number.optional().meta({ description: 'From 1' }),
  count: number.optional().meta({ description: `At most ${maxScimCount}` }),
  sortBy: names.optional().meta({ description: 'Ignored' }),
  sortOrder: z.enum(['ascending', 'descending']).optional(),
  ...projection,
})
const groupListQuery = listQuery.extend({
  filter: listQuery.shape.filter.meta({
    description: 'RFC 7644 §3.4.2.2',
    examples: ['displayName eq "Internal audit"'],
  }),
})
const one = z.strictObject({ id: uuidSchema })
const oneQuery = z.strictObject(projection)
const largeBody = 4 * 1024 * 1024

export const scimListUsers = defineRoute({
  ...base,
  id: 'sync.scim-list-users',
  method: 'GET',
  path: `${scimBase}/Users`,
  summary: 'List the users that identity providers have sent',
  description: '`filter` selects users; `startIndex` and `count` select a page (RFC 7644 §3.4.2).',
  query: listQuery,
  answers: { 200: { description: 'The users', schema: scimUserListSchema, ...media } },
})

export const scimCreateUser = defineRoute({
  ...base,
  id: 'sync.scim-create-user',
  method: 'POST',
  path: `${scimBase}/Users`,
  summary: 'Create a user',
  description:
    'The user becomes a person of the universe, identified by `externalId`, or by `userName` if that is missing. Division and department become nodes of the hierarchy `scim`.',
  query: oneQuery,
  body: scimUserInputSchema,
  bodyMediaTypes,
  answers: { 201: { description: 'The user', schema: scimUserSchema, ...media } },
  problems: ['conflict'],
})

export const scimGetUser = defineRoute({
  ...base,
  id: 'sync.scim-get-user',
  method: 'GET',
  path: `${scimBase}/Users/:id`,
  summary: 'Read a user',
  description: 'The user as the provider sent it, with `id` and `meta` (RFC 7644 §3.4.1).',
  params: one,
  query: oneQuery,
  answers: {
    200: { description: 'The user', schema: scimUserSchema, ...media },
    304: { description: 'Not modified' },
  },
})

export const scimReplaceUser = defineRoute({
  ...base,
  id: 'sync.scim-replace-user',
  method: 'PUT',
  path: `${scimBase}/Users/:id`,
  summary: 'Replace a user',
  description: 'Attributes that the request leaves out are deleted (RFC 7644 §3.5.1).',
  params: one,
  query: oneQuery,
  body: scimUserInputSchema,
  bodyMediaTypes,
  answers: { 200: { description: 'The user', schema: scimUserSchema, ...media, headers: tagged } },
  problems: ['conflict', 'precondition_failed'],
})

export const scimPatchUser = defineRoute({
  ...base,
  id: 'sync.scim-patch-user',
  method: 'PATCH',
  path: `${scimBase}/Users/:id`,
  summary: 'Change a user',
  description: 'Adds, replaces or removes single attributes (RFC 7644 §3.5.2).',
  params: one,
  query: oneQuery,
  body: scimPatchSchema,
  bodyMediaTypes,
  answers: { 200: { description: 'The user', schema: scimUserSchema, ...media } },
  problems: ['conflict', 'precondition_failed'],
})

export const scimDeleteUser = defineRoute({
  ...base,
  id: 'sync.scim-delete-user',
  method: 'DELETE',
  path: `${scimBase}/Users/:id`,
  summary: 'Delete a user',
  description: 'The person stays in the universe but becomes inactive. Findings and plans still name the person.',
  params: one,
  query: flagQuery,
  answers: { 204: { description: 'Deleted' } },
  problems: ['conflict', 'precondition_failed'],
})

export const scimListGroups = defineRoute({
  ...base,
  id: 'sync.scim-list-groups',
  method: 'GET',
  path: `${scimBase}/Groups`,
  summary: 'List the groups that identity providers have sent',
  description: '`filter` selects groups; `startIndex` and `count` select a page (RFC 7644 §3.4.2).',
  query: groupListQuery,
  answers: { 200: { description: 'The groups', schema: scimGroupListSchema, ...media } },
})

export const scimCreateGroup = defineRoute({
  ...base,
  id: 'sync.scim-create-group',
  method: 'POST',
  path: `${scimBase}/Groups`,
  summary: 'Create a group',
  description: 'Groups are stored only for the provider. They are not part of the universe.',
  query: oneQuery,
  body: scimGroupInputSchema,
  bodyMediaTypes,
  maxBodyBytes: largeBody,
  answers: { 201: { description: 'The group', schema: scimGroupSchema, ...media } },
  problems: ['conflict'],
})

export const scimGetGroup = defineRoute({
  ...base,
  id: 'sync.scim-get-group',
  method: 'GET',
  path: `${scimBase}/Groups/:id`,
  summary: 'Read a group',
  description: '`excludedAttributes=members` leaves out the members of a large group (RFC 7644 §3.9).',
  params: one,
  query: oneQuery,
  answers: {
    200: { description: 'The group', schema: scimGroupSchema, ...media },
    304: { description: 'Not modified' },
  },
})

export const scimReplaceGroup = defineRoute({
  ...base,
  id: 'sync.scim-replace-group',
  method: 'PUT',
  path: `${scimBase}/Groups/:id`,
  summary: 'Replace a group',
  description: 'The list of members is replaced as a whole (RFC 7644 §3.5.1).',
  params: one,
  query: oneQuery,
  body: scimGroupInputSchema,
  bodyMediaTypes,
  maxBodyBytes: largeBody,
  answers: { 200: { description: 'The group', schema: scimGroupSchema, ...media, headers: tagged } },
  problems: ['conflict', 'precondition_failed'],
})

export const scimPatchGroup = defineRoute({
  ...base,
  id: 'sync.scim-patch-group',
  method: 'PATCH',
  path: `${scimBase}/Groups/:id`,
  summary: 'Change a group',
  description: 'Adds or removes single members without sending the others (RFC 7644 §3.5.2).',
  params: one,
  query: oneQuery,
  body: scimGroupPatchSchema,
  bodyMediaTypes,
  maxBodyBytes: largeBody,
  answers: { 200: { description: 'The group', schema: scimGroupSchema, ...media } },
  problems: ['conflict', 'precondition_failed'],
})

export const scimDeleteGroup = defineRoute({
  ...base,
  id: 'sync.scim-delete-group',
  method: 'DELETE',
  path: `${scimBase}/Groups/:id`,
  summary: 'Delete a group',
  description: 'The users of the group stay as they are.',
  params: one,
  query: flagQuery,
  answers: { 204: { description: 'Deleted' } },
  problems: ['precondition_failed'],
})

const searched = { query: flagQuery, body: scimSearchSchema, bodyMediaTypes } as const

export const scimSearchUsers = defineRoute({
  ...base,
  ...searched,
  id: 'sync.scim-search-users',
  method: 'POST',
  path: `${scimBase}/Users/.search`,
  summary: 'Search users',
  description: 'Returns what `GET /scim/v2/Users` returns for the same parameters (RFC 7644 §3.4.3).',
  answers: { 200: { description: 'The users', schema: scimUserListSchema, ...media } },
})

export const scimSearchGroups = defineRoute({
  ...base,
  ...searched,
  id: 'sync.scim-search-groups',
  method: 'POST',
  path: `${scimBase}/Groups/.search`,
  summary: 'Search groups',
  description: 'Returns what `GET /scim/v2/Groups` returns for the same parameters (RFC 7644 §3.4.3).',
  answers: { 200: { description: 'The groups', schema: scimGroupListSchema, ...media } },
})

export const scimSearch = defineRoute({
  ...base,
  ...searched,
  id: 'sync.scim-search',
  method: 'POST',
  path: `${scimBase}/.search`,
  summary: 'Search users and groups',
  description:
    'Users come before groups. A filter by an attribute that only one type of resource has finds only resources of that type (RFC 7644 §3.4.2.1).',
  answers: {
    200: {
      description: 'Users and groups',
      schema: scimResourceListSchema,
      ...media,
    },
  },
})

/** Ignored according to RFC 7644 §4; a filter is rejected. */
const ignored = z.string().max(2000).optional().meta({ description: 'Ignored (RFC 7644 §4)' })
const ignoredQuery = z.strictObject({
  ...flag,
  attributes: ignored,
  excludedAttributes: ignored,
  startIndex: ignored,
  count: ignored,
  sortBy: ignored,
  sortOrder: ignored,
  filter: z.string().max(2000).optional().meta({ description: 'Rejected with 403 (RFC 7644 §4)' }),
})

const unsupported = {
  ...base,
  query: ignoredQuery,
  answers: { 204: { description: 'Never sent: this operation is not supported' } },
  problems: ['not_implemented'],
} as const
const anyBody = { body: z.unknown(), bodyMediaTypes } as const
const me = {
  ...unsupported,
  path: `${scimBase}/Me`,
  description: 'An API key is nobody’s account. This operation always returns 501 (RFC 7644 §3.11).',
} as const

export const scimGetMe = defineRoute({
  ...me,
  id: 'sync.scim-get-me',
  method: 'GET',
  summary: 'Read the own user (not supported)',
})

export const scimCreateMe = defineRoute({
  ...me,
  ...anyBody,
  id: 'sync.scim-create-me',
  method: 'POST',
  summary: 'Create the own user (not supported)',
})

export const scimReplaceMe = defineRoute({
  ...me,
  ...anyBody,
  id: 'sync.scim-replace-me',
  method: 'PUT',
  summary: 'Replace the own user (not supported)',
})

export const scimPatchMe = defineRoute({
  ...me,
  ...anyBody,
  id: 'sync.scim-patch-me',
  method: 'PATCH',
  summary: 'Change the own user (not supported)',
})

export const scimDeleteMe = defineRoute({
  ...me,
  id: 'sync.scim-delete-me',
  method: 'DELETE',
  summary: 'Delete the own user (not supported)',
})

export const scimBulk = defineRoute({
  ...unsupported,
  ...anyBody,
  id: 'sync.scim-bulk',
  method: 'POST',
  path: `${scimBase}/Bulk`,
  summary: 'Carry out several operations (not supported)',
  description: 'Always returns 501, as `ServiceProviderConfig` says (RFC 7644 §3.7).',
})

const described = { schema: scimDescriptionSchema, ...media } as const
const urn = z.strictObject({ urn: z.string().regex(/^[A-Za-z0-9:._-]{1,200}$/) })

/**
 * Public, because RFC 7643 §5 requires `authenticationSchemes` without credentials. RFC 7644 §4 ignores sorting, paging
 * and attributes here.
 */
const description = {
  ...base,
  access: { kind: 'public' },
  query: ignoredQuery,
  problems: ['filter_not_allowed'],
} as const

export const scimServiceConfig = defineRoute({
  ...description,
  id: 'sync.scim-service-config',
  method: 'GET',
  path: `${scimBase}/ServiceProviderConfig`,
  summary: 'Read what of SCIM is supported',
  description: 'Describes which optional parts of SCIM the service has.',
  answers: { 200: { description: 'RFC 7643 §5', ...described } },
})

export const scimListResourceTypes = defineRoute({
  ...description,
  id: 'sync.scim-list-resource-types',
  method: 'GET',
  path: `${scimBase}/ResourceTypes`,
  summary: 'List the types of resources',
  description: 'Users and groups, with their addresses and schemas.',
  answers: { 200: { description: 'RFC 7643 §6', schema: scimDescriptionListSchema, ...media } },
})

export const scimGetResourceType = defineRoute({
  ...description,
  id: 'sync.scim-get-resource-type',
  method: 'GET',
  path: `${scimBase}/ResourceTypes/:urn`,
  summary: 'Read a type of resource',
  description: '`User` or `Group`.',
  params: urn,
  answers: { 200: { description: 'RFC 7643 §6', ...described } },
})

export const scimListSchemas = defineRoute({
  ...description,
  id: 'sync.scim-list-schemas',
  method: 'GET',
  path: `${scimBase}/Schemas`,
  summary: 'List the schemas of the resources',
  description: 'The attributes of users and groups, with their types.',
  answers: { 200: { description: 'RFC 7643 §7', schema: scimDescriptionListSchema, ...media } },
})

export const scimGetSchema = defineRoute({
  ...description,
  id: 'sync.scim-get-schema',
  method: 'GET',
  path: `${scimBase}/Schemas/:urn`,
  summary: 'Read a schema',
  description: 'The attributes of one schema, named by its URN.',
  params: urn,
  answers: { 200: { description: 'RFC 7643 §7', ...described } },
})

export const scimRoutes = [
  scimListUsers,
  scimCreateUser,
  scimGetUser,
  scimReplaceUser,
  scimPatchUser,
  scimDeleteUser,
  scimListGroups,
  scimCreateGroup,
  scimGetGroup,
  scimReplaceGroup,
  scimPatchGroup,
  scimDeleteGroup,
  scimSearchUsers,
  scimSearchGroups,
  scimSearch,
  scimGetMe,
  scimCreateMe,
  scimReplaceMe,
  scimPatchMe,
  scimDeleteMe,
  scimBulk,
  scimServiceConfig,
  scimListResourceTypes,
  scimGetResourceType,
  scimListSchemas,
  scimGetSchema,
] as const
