import {
  enterpriseUrn,
  groupUrn,
  maxScimCount,
  scimBase,
  scimGetResourceType,
  scimGetSchema,
  scimListResourceTypes,
  scimListSchemas,
  scimServiceConfig,
  userUrn,
} from '@postern/contracts'
import { type App, contractRoute, problem } from '@postern/service-kit'
import {
  type Attribute,
  type ResourceSchema,
  commonAttributes,
  enterpriseSchema,
  groupSchema,
  userSchema,
} from './attributes.ts'
import { listOf } from './answer.ts'

type Json = string | number | boolean | null | Json[] | { [name: string]: Json }
type Description = { [name: string]: Json }

/** What the service says of itself (RFC 7644 §4). */
export function scimDescriptionRoutes(app: App): void {
  const types = [userType, groupType]
  const schemas = [userSchema, groupSchema, enterpriseSchema].map(describe)

  contractRoute(app, scimServiceConfig, async () => serviceConfig)
  contractRoute(app, scimListResourceTypes, async () => listOf(types.length, 1, types))
  contractRoute(app, scimListSchemas, async () => listOf(schemas.length, 1, schemas))
  contractRoute(app, scimGetResourceType, async ({ params }) => named(types, params.urn))
  contractRoute(app, scimGetSchema, async ({ params }) => named(schemas, params.urn))
}

function named(list: readonly Description[], id: string): Description {
  const found = list.find((each) => each['id'] === id)
  if (found === undefined) throw problem('not_found')
  return found
}

const serviceConfig: Description = {
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
  meta: { resourceType: 'ServiceProviderConfig', location: `${scimBase}/ServiceProviderConfig` },
}

const userType: Description = {
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ResourceType'],
  id: 'User',
  name: 'User',
  endpoint: '/Users',
  schema: userUrn,
  schemaExtensions: [{ schema: enterpriseUrn, required: false }],
  meta: { resourceType: 'ResourceType', location: `${scimBase}/ResourceTypes/User` },
}

const groupType: Description = {
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ResourceType'],
  id: 'Group',
  name: 'Group',
  endpoint: '/Groups',
  schema: groupUrn,
  meta: { resourceType: 'ResourceType', location: `${scimBase}/ResourceTypes/Group` },
}

function describe({ urn, name, description, attributes }: ResourceSchema): Description {
  const all = urn === enterpriseUrn ? attributes : [...commonAttributes, ...attributes]
  return {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:Schema'],
    id: urn,
    name,
    description,
    attributes: all.map(describeAttribute),
    meta: { resourceType: 'Schema', location: `${scimBase}/Schemas/${urn}` },
  }
}

function describeAttribute({ name, type, multi, required, caseExact, readOnly, unique, parts }: Attribute): Json {
  return {
    name,
    type,
    multiValued: multi === true,
    required: required === true,
    caseExact: caseExact === true,
    mutability: readOnly === true ? 'readOnly' : 'readWrite',
    returned: 'default',
    uniqueness: unique === true ? 'server' : 'none',
    ...(type === 'reference' ? { referenceTypes: ['User', 'Group'] } : {}),
    ...(parts === undefined ? {} : { subAttributes: parts.map(describeAttribute) }),
  }
}
