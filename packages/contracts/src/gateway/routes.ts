import { z } from 'zod'
import { timestampSchema, uuidSchema } from '../common.ts'
import { grantableScopeSchema } from '../keys/api-key.ts'
import { namedScopes, roles } from '../scope.ts'
import { defineRoute } from '../route.ts'

export const whoamiSchema = z
  .object({
    kind: z.enum(['api_key', 'user', 'machine']),
    id: z.string(),
    label: z.string(),
    tenant: z
      .object({ id: uuidSchema, name: z.string() })
      .nullable()
      .meta({ description: 'Null if a person has several tenants and the request names none in `postern-tenant`' }),
    tenants: z
      .array(z.object({ id: uuidSchema, name: z.string(), roles: z.array(z.enum(roles)) }))
      .meta({ description: 'The tenants that the caller can name in `postern-tenant`, with its roles there' }),
    granted: z.array(grantableScopeSchema).meta({ description: 'The granted scopes, including wildcards' }),
    scopes: z.array(z.enum(namedScopes)).meta({ description: 'The named scopes that these include' }),
    roles: z.array(z.enum(roles)),
    masked: z.string().nullable(),
    expires_at: timestampSchema.nullable(),
  })
  .meta({ id: 'Principal' })
export type Whoami = z.infer<typeof whoamiSchema>

export const whoami = defineRoute({
  id: 'gateway.whoami',
  method: 'GET',
  path: '/api/v1/whoami',
  upstream: 'gateway',
  access: { kind: 'any' },
  tag: 'Access',
  summary: 'Read the caller and its scopes or roles',
  description:
    'A good first request: it needs no scope, and shows the tenant with the scopes of a key or the roles of a person.',
  answers: { 200: { description: 'The principal', schema: whoamiSchema } },
})

export const openApiDocument = defineRoute({
  id: 'gateway.openapi',
  method: 'GET',
  path: '/api/v1/openapi.json',
  upstream: 'gateway',
  access: { kind: 'public' },
  tag: 'Access',
  summary: 'This API as an OpenAPI 3.1 document',
  description: 'For client generators and import into tools. `servers` has the public address of this installation.',
  answers: {
    200: {
      description: 'The document',
      schema: z.record(z.string(), z.unknown()).meta({ examples: [{ openapi: '3.1.0' }] }),
    },
    304: { description: 'Not modified' },
  },
})

export const agentOpenApiDocument = defineRoute({
  ...openApiDocument,
  id: 'gateway.agent-openapi',
  path: '/api/v1/openapi-agent.json',
  summary: 'The operations that suit an AI agent as an OpenAPI 3.1 document',
  description: 'About 25 operations, each with when to use it. `postern mcp` offers the same ones as tools.',
})

export const swaggerDocument = defineRoute({
  ...openApiDocument,
  id: 'gateway.swagger',
  path: '/api/v1/swagger.json',
  summary: 'This API as an OpenAPI 2.0 document',
  description:
    'For tools that do not read OpenAPI 3, such as Power Platform. It states fewer rules and no response headers.',
  answers: {
    200: {
      description: 'The document',
      schema: z.record(z.string(), z.unknown()).meta({ examples: [{ swagger: '2.0' }] }),
    },
    304: { description: 'Not modified' },
  },
})

export const problemPage = defineRoute({
  id: 'gateway.problem',
  method: 'GET',
  path: '/problems/:slug',
  upstream: 'gateway',
  access: { kind: 'public' },
  tag: 'Access',
  summary: 'What a problem type means and what to do',
  description: 'The `type` of each problem document is the address of such a page.',
  params: z.strictObject({ slug: z.string().regex(/^[a-z0-9-]{1,64}$/) }),
  answers: { 200: { description: 'A page', mediaType: 'text/html' } },
  problems: ['not_found'],
})

export const referencePage = defineRoute({
  id: 'gateway.reference',
  method: 'GET',
  path: '/docs',
  upstream: 'gateway',
  access: { kind: 'public' },
  tag: 'Access',
  summary: 'This API as a web page',
  description: 'The reference of this installation. The page loads nothing from other hosts.',
  answers: { 200: { description: 'A page', mediaType: 'text/html' }, 304: { description: 'Not modified' } },
})

export const referenceScript = defineRoute({
  ...referencePage,
  id: 'gateway.reference-script',
  path: '/docs/reference.js',
  summary: 'The script of the reference',
  description: 'Part of `/docs`. It changes with the version of the product.',
  answers: { 200: { description: 'The script', mediaType: 'text/javascript' }, 304: { description: 'Not modified' } },
})

export const guidesPage = defineRoute({
  ...referencePage,
  id: 'gateway.guides',
  path: '/docs/guides',
  summary: 'The guides as web pages',
  description: 'All guides by audience. The pages load nothing from other hosts.',
})

export const guidePage = defineRoute({
  ...referencePage,
  id: 'gateway.guide',
  path: '/docs/guides/:guide',
  summary: 'A guide as a web page',
  description: '`/docs/guides` lists the guides.',
  params: z.strictObject({ guide: z.string().regex(/^[a-z0-9-]{1,64}$/) }),
  problems: ['not_found'],
})

export const gatewayRoutes = [
  whoami,
  openApiDocument,
  agentOpenApiDocument,
  swaggerDocument,
  referencePage,
  referenceScript,
  guidesPage,
  guidePage,
  problemPage,
] as const
