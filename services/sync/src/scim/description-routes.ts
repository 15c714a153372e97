import {
  enterpriseUrn,
  groupUrn,
  maxScimCount,
  scimBase,
  scimBulk,
  scimCreateMe,
  scimDeleteMe,
  scimGetMe,
  scimGetResourceType,
  scimGetSchema,
  scimListResourceTypes,
  scimListSchemas,
  scimPatchMe,
  scimReplaceMe,
  scimServiceConfig,
  userUrn,
} from '@postern/contracts'
import { type App, contractRoute, problem } from '@postern/service-kit'
import { type Attribute, type ResourceSchema, enterpriseSchema, groupSchema, userSchema } from './attributes.ts'
import { listOf } from './answer.ts'
import type { UrlOfPath } from './locate.ts'

type Json = string | number | boolean | null | Json[] | { [name: string]: Json }
type Description = { [name: string]: Json }

/** Discovery (RFC 7644, section 4). */
export function scimDescriptionRoutes(app: App, { locate }: { readonly locate: UrlOfPath }): void {
  const types = resourceTypes(locate)
  const schemas = [userSchema, groupSchema, enterpriseSchema].map((schema) => describe(schema, locate))

  contractRoute(app, scimServiceConfig, async ({ query }) => refuseFilter(query, serviceConfig(locate)))
  contractRoute(app, scimListResourceTypes, async ({ query }) => refuseFilter(query, listOf(types.length, 1, types)))
  contractRoute(app, scimListSchemas, async ({ query }) => refuseFilter(query, listOf(schemas.length, 1, schemas)))
  contractRoute(app, scimGetResourceType, async ({ params, query }) =>
    refuseFilter(query, findNamed(types, params.urn)),
  )
  contractRoute(app, scimGetSchema, async ({ params, query }) => refuseFilter(query, findNamed(schemas, params.urn)))

  const me = [scimGetMe, scimCreateMe, scimReplaceMe, scimPatchMe, scimDeleteMe]
  for (const route of [...me, scimBulk]) contractRoute(app, route, async () => refuseUnsupported(route))
}

/** Filters are rejected (RFC 7644, section 4). */
function refuseFilter<Body>({ filter }: { readonly filter?: string | undefined }, body: Body): Body {
  if (filter === undefined) return body
  throw problem('filter_not_allowed', { detail: 'Descriptions of the service cannot be filtered. Send no `filter`.' })
}

async function refuseUnsupported({ path }: { readonly path: string }): Promise<undefined> {
  throw problem('not_implemented', {
    detail: `${path.slice(scimBase.length)} is not supported. Use /Users and /Groups.`,
  })
}

function findNamed(list: readonly Description[], id: string): Description {
  const found = list.find((each) => each['id'] === id)
  if (found === undefined) throw problem('not_found')
  return found
}

const serviceConfig = (locate: UrlOfPath): Description => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig'],
  patch: { supported: true },
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
  filter: { supported: true, maxResults: maxScimCount },
  changePassword: { supported: false },
  sort: { supported: false },
  etag: { supported: true },
  authenticationSchemes: [
    {
      type: 'oauthbearertoken',
      name: 'API key',
      description: 'An API key with the scope admin:sync, sent as a bearer token',
      primary: true,
    },
  ],
  meta: { resourceType: 'ServiceProviderConfig', location: locate('/ServiceProviderConfig') },
})

const resourceTypes = (locate: UrlOfPath): Description[] => [
  { ...userType, meta: { resourceType: 'ResourceType', location: locate('/ResourceTypes/User') } },
  { ...groupType, meta: { resourceType: 'ResourceType', location: locate('/ResourceTypes/Group') } },
]

const userType: Description = {
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ResourceType'],
  id: 'User',
  name: 'User',
  endpoint: '/Users',
  schema: userUrn,
  schemaExtensions: [{ schema: enterpriseUrn, required: false }],
}

const groupType: Description = {
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ResourceType'],
  id: 'Group',
  name: 'Group',
  endpoint: '/Groups',
  schema: groupUrn,
}

function describe({ urn, name, description, attributes }: ResourceSchema, locate: UrlOfPath): Description {
  return {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:Schema'],
    id: urn,
    name,
    description,
    attributes: attributes.map(describeAttribute),
    meta: { resourceType: 'Schema', location: locate(`/Schemas/${urn}`) },
  }
}

function describeAttribute({
  name,
  type,
  multi,
  required,
  caseExact,
  mutability,
  unique,
  canonicalValues,
  parts,
}: Attribute): Json {
  return {
    name,
    type,
    multiValued: multi === true,
    required: required === true,
    caseExact: caseExact === true,
    mutability: mutability ?? 'readWrite',
    returned: 'default',
    ...(canonicalValues === undefined ? {} : { canonicalValues: [...canonicalValues] }),
    uniqueness: unique === true ? 'server' : 'none',
    ...(type === 'reference' ? { referenceTypes: ['User', 'Group'] } : {}),
    ...(parts === undefined ? {} : { subAttributes: parts.map(describeAttribute) }),
  }
}
