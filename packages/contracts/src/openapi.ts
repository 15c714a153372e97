import { z } from 'zod'
import { documentedSchema } from './parse-items-separately.ts'
import { exampleOf } from './example.ts'
import {
  cellOf,
  csvCell,
  itemSchemaOf,
  linesMediaType,
  pageMediaType,
  tableColumnsOf,
  workbookMediaType,
} from './media-types.ts'
import { headerComponents, headerParameters, headersOf } from './openapi-headers.ts'
import { problemDocument, problemMediaType, problemSchema, problemTypes, problemUri } from './problem.ts'
import { connectorConfigSchemas } from './sync/connector-configs.ts'
import { tenantHeader } from './platform-headers.ts'
import { problemsOf } from './route-problems.ts'
import { routeTable } from './route-table.ts'
import { type Route, tags } from './route.ts'
import { scimError, scimErrorSchema, scimMediaType, scimStatusOf } from './scim/error.ts'
import { namedScopes, scopeDescriptions } from './scope.ts'
import { withMemberWords } from './words/members.ts'
import { parameterWords } from './words/parameters.ts'

/** Sent as `API-Version`. */
export const apiVersion = '1.0.0-beta'

type Json = Record<string, unknown>

export function openApi(serverUrl: string, routes: readonly Route[] = routeTable): Json {
  const schemas = new Map<string, unknown>()
  const paths: Record<string, Record<string, Json>> = {}
  for (const route of routes) {
    const path = route.path.replaceAll(/:([a-z_]+)/g, '{$1}')
    const item = (paths[path] ??= {})
    item[route.method.toLowerCase()] = operation(route, schemas)
  }
  if (schemas.has('NewConnector')) {
    for (const schema of Object.values(connectorConfigSchemas)) schemaOf(schema, 'input', schemas)
  }
  schemaOf(problemSchema, 'output', schemas)
  schemaOf(scimErrorSchema, 'output', schemas)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Postern',
      version: apiVersion,
      summary: 'Scoped API-key access to an audit-management system',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: serverUrl }],
    paths,
    components: {
      schemas: Object.fromEntries([...schemas].toSorted(([a], [b]) => (a < b ? -1 : 1))),
      headers: headerComponents(),
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'ApiKey', description: 'Authorization: ApiKey <key>' },
        provider: {
          type: 'http',
          scheme: 'bearer',
          description: 'Only below /scim/v2: Authorization: Bearer <key>, an API key as identity providers send it',
        },
        person: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: `OpenID Connect access token of a person. With several tenants, name one in the header ${tenantHeader}: its id or slug. For API keys the header has no meaning.`,
        },
      },
    },
    tags: [...new Set(routes.map((route) => route.tag))].map((name) => ({ name, description: tags[name] })),
    'x-scopes': Object.fromEntries(namedScopes.map((scope) => [scope, scopeDescriptions[scope]])),
  }
}

function operation(route: Route, schemas: Map<string, unknown>): Json {
  return {
    operationId: route.id,
    tags: [route.tag],
    summary: route.summary,
    description: route.description,
    ...security(route),
    ...parameters(route, schemas),
    ...requestBody(route, schemas),
    responses: { ...responsesOf(route, schemas), ...problems(route) },
  }
}

function security({ access, dialect }: Route): Json {
  if (dialect === 'scim' && access.kind === 'scope') {
    const needed = [access.scope]
    return {
      security: [{ provider: needed }, { apiKey: needed }, { person: needed }],
      'x-required-scope': access.scope,
    }
  }
  switch (access.kind) {
    case 'public':
      return { security: [] }
    case 'any':
      return { security: [{ apiKey: [] }, { person: [] }] }
    case 'scope':
      return { security: [{ apiKey: [access.scope] }, { person: [access.scope] }], 'x-required-scope': access.scope }
    case 'any-scope':
      return {
        security: access.scopes.flatMap((scope) => [{ apiKey: [scope] }, { person: [scope] }]),
        'x-required-scope': { oneOf: access.scopes },
      }
    case 'person':
      return { security: [{ person: [access.role] }], 'x-required-role': access.role }
    default:
      return access satisfies never
  }
}

function parameters(route: Route, schemas: Map<string, unknown>): Json {
  const list: Json[] = [
    ...Object.entries(route.params?.shape ?? {}).map(([name, schema]) => parameter('path', name, schema, schemas)),
    ...Object.entries(route.query?.shape ?? {}).map(([name, schema]) => parameter('query', name, schema, schemas)),
    ...headerParameters(route),
  ]
  return { parameters: list }
}

function parameter(place: 'path' | 'query', name: string, schema: unknown, schemas: Map<string, unknown>): Json {
  if (!(schema instanceof z.ZodType)) throw new TypeError(`${name} is not a schema`)
  const { description, ...rest } = asJson(schemaOf(schema, 'input', schemas))
  const words = parameterWords(name, schema, { ...rest, description })
  // zod omits the default from the input schema of a transform.
  const absent = schema.safeParse(undefined)
  const isDefaulted = absent.success && absent.data !== undefined
  return {
    name,
    in: place,
    required: place === 'path' || !absent.success,
    ...words,
    schema: isDefaulted ? { ...rest, default: absent.data } : rest,
  }
}

function requestBody(route: Route, schemas: Map<string, unknown>): Json {
  if (route.body === undefined && route.bodyMediaTypes === undefined) return {}
  const mediaTypes = route.bodyMediaTypes ?? ['application/json']
  const described = route.body ?? route.form
  const schema = described === undefined ? {} : schemaOf(described, 'input', schemas)
  const example = route.body === undefined ? {} : { example: exampleIn(schema, schemas) }
  return {
    requestBody: {
      required: route.body === undefined || !route.body.safeParse(undefined).success,
      content: Object.fromEntries(
        mediaTypes.map((mediaType) => [
          mediaType,
          mediaType === linesMediaType ? linesOf(exampleIn(schema, schemas)) : { schema, ...example },
        ]),
      ),
    },
  }
}

function linesOf(items: unknown): Json {
  const rows = Array.isArray(items) ? items : []
  return {
    schema: { type: 'string', description: 'One line of JSON for each item of the list. Empty lines are ignored.' },
    example: rows.map((row) => `${JSON.stringify(row)}\n`).join(''),
  }
}

function responsesOf(route: Route, schemas: Map<string, unknown>): Json {
  return Object.fromEntries(
    Object.entries(route.answers).map(([status, answer]) => [
      status,
      { description: answer.description, ...headersOf(route, Number(status)), ...content(route, answer, schemas) },
    ]),
  )
}

function content(
  route: Route,
  { schema, mediaType, alternatives = [] }: Route['answers'][number],
  schemas: Map<string, unknown>,
): Json {
  if (schema === undefined && mediaType === undefined) return {}
  const shown =
    schema === undefined ? describeText(mediaType) : describeJson(schemaOf(schema, 'output', schemas), schemas)
  const types = [mediaType ?? 'application/json', ...alternatives]
  return {
    content: {
      ...Object.fromEntries(types.map((type) => [type, shown])),
      ...(schema === route.answers[200]?.schema ? exports(route, schemas) : {}),
    },
  }
}

function describeJson(schema: unknown, schemas: Map<string, unknown>): Json {
  return { schema, example: exampleIn(schema, schemas) }
}

/** Tools would read each event of a stream by its schema, so a stream has none. */
function describeText(mediaType: string | undefined): Json {
  return mediaType === 'text/event-stream' ? {} : { schema: { type: 'string' } }
}

function exports(route: Route, schemas: Map<string, unknown>): Json {
  const item = itemSchemaOf(route)
  if (item === undefined) return {}
  const described = schemaOf(item, 'output', schemas)
  const example = asJson(exampleIn(described, schemas))
  const table = tableColumnsOf(route)
  const columns = table.map(({ name }) => name)
  const isFeed = route.query?.shape['follow'] !== undefined
  const rows = [columns, table.map((column) => csvCell(cellOf(example, column)))]
  return {
    'application/x-ndjson': {
      schema: {
        type: 'string',
        description:
          'The whole list: one line of JSON for each item. Slow searches send blanks to keep the connection open, so ignore blanks. An empty list can be empty or blank. `limit` is ignored.',
      },
      'x-item-schema': described,
      example: `${JSON.stringify(example)}\n`,
    },
    [pageMediaType]: {
      schema: pageSchema(described, isFeed),
      example: { items: [example], next: null, total: null, ...(isFeed ? { next_since: 'WzEsNDIsMV0' } : {}) },
    },
    'text/csv': {
      schema: {
        type: 'string',
        description:
          'The whole list (RFC 4180), with a header. Cells contain objects as JSON and lists of words separated by spaces; the parts of an object also have columns, such as `owner_name`. `csv`, `separator` and `formulas` change how it is written.',
      },
      'x-columns': columns,
      example: `${rows.map((cells) => cells.join(',')).join('\r\n')}\r\n`,
    },
    [workbookMediaType]: {
      schema: {
        type: 'string',
        contentMediaType: workbookMediaType,
        description:
          'The whole list as an Excel workbook (`.xlsx`) with the columns of the CSV. The header stays in view. Dates and times (UTC) are dates of Excel. Text is never a formula; beyond 32,767 characters it ends with `…`.',
      },
    },
  }
}

function pageSchema(item: unknown, isFeed: boolean): Json {
  const text = { type: 'string' }
  const textOrNull = { type: ['string', 'null'] }
  const place = isFeed
    ? { next_since: { ...text, description: 'The value of `since` for the next request' } }
    : { next_cursor: { ...textOrNull, description: 'The `cursor` of the next page; null on the last one' } }
  return {
    type: 'object',
    required: ['items', 'next', 'total'],
    properties: {
      items: { type: 'array', items: item, description: 'The resources of this page' },
      next: { ...textOrNull, description: 'The next page, relative to this URL; null on the last one' },
      total: { type: ['integer', 'null'], description: 'The resources on all pages with `count=true`; else null' },
      ...place,
      next_updated_since: { ...text, description: 'The value of `updated_since` for the next load' },
    },
  }
}

function problems(route: Route): Json {
  if (route.dialect === 'scim') return scimErrors(route)
  const byStatus = Map.groupBy(problemsOf(route), (code) => problemTypes[code].status)
  return Object.fromEntries(
    [...byStatus].map(([status, list]) => [
      String(status),
      {
        description: list.map((code) => `\`${code}\` (${problemUri(code)}): ${problemTypes[code].title}`).join('; '),
        ...headersOf(route, status),
        content: {
          [problemMediaType]: {
            schema: { $ref: '#/components/schemas/Problem' },
            examples: Object.fromEntries(list.map((code) => [code, { value: problemDocument(code, '0G4Yb3kQX1-8') }])),
          },
        },
      },
    ]),
  )
}

function scimErrors(route: Route): Json {
  const byStatus = Map.groupBy(problemsOf(route), scimStatusOf)
  return Object.fromEntries(
    [...byStatus].map(([status, list]) => [
      String(status),
      {
        description: list.map((code) => problemTypes[code].title).join('; '),
        ...headersOf(route, status),
        content: {
          [scimMediaType]: {
            schema: { $ref: '#/components/schemas/ScimError' },
            examples: Object.fromEntries(list.map((code) => [code, { value: scimError(code, '0G4Yb3kQX1-8') }])),
          },
        },
      },
    ]),
  )
}

function exampleIn(schema: unknown, schemas: ReadonlyMap<string, unknown>): unknown {
  return exampleOf(schema, (reference) => schemas.get(reference.slice('#/components/schemas/'.length)))
}

/** JSON Schema 2020-12. A schema with an id becomes a component. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output', schemas: Map<string, unknown>): unknown {
  const {
    $schema: _dialect,
    $defs,
    ...root
  } = asJson(
    z.toJSONSchema(schema, {
      io,
      unrepresentable: 'any',
      target: 'draft-2020-12',
      override: (context) => {
        withExamples(context)
        withKnownFormat(context.jsonSchema)
        const documented = documentedSchema(context.zodSchema)
        if (documented !== undefined) Object.assign(context.jsonSchema, schemaOf(documented, io, schemas))
      },
    }),
  )
  // Requests accept more than responses contain, so a component of both has their schema.
  const publish = (id: string, definition: unknown): void => {
    const name = componentName(id)
    if (io === 'input' || !schemas.has(name)) schemas.set(name, withMemberWords(name, withComponentRefs(definition)))
  }
  for (const [id, definition] of Object.entries(asJson($defs ?? {}))) publish(id, definition)
  const named = asJson(root)
  if (typeof named.id === 'string') {
    const { id, ...definition } = named
    publish(id, definition)
    return { $ref: `#/components/schemas/${componentName(id)}` }
  }
  return withMemberWords('', withComponentRefs(root))
}

/** zod omits examples from the input schema of a transform. */
function withExamples({
  zodSchema,
  jsonSchema,
}: {
  zodSchema: z.core.$ZodTypes
  jsonSchema: z.core.JSONSchema.BaseSchema
}): void {
  const examples = z.globalRegistry.get(zodSchema)?.['examples']
  if (Array.isArray(examples)) jsonSchema.examples = examples
}

/** Readers of JSON Schema do not know zod's own formats. */
const ownFormats: ReadonlySet<unknown> = new Set(['cidrv4', 'cidrv6'])

function withKnownFormat(jsonSchema: z.core.JSONSchema.BaseSchema): void {
  if (ownFormats.has(jsonSchema.format)) delete jsonSchema.format
}

function componentName(id: string): string {
  return id.replaceAll(/[^A-Za-z0-9._-]+(.)/g, (_match, next: string) => next.toUpperCase())
}

function withComponentRefs(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withComponentRefs)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => name !== 'id' || typeof Reflect.get(value, 'id') !== 'string')
      .map(([name, inner]) =>
        name === '$ref' && typeof inner === 'string' && inner.startsWith('#/$defs/')
          ? [name, `#/components/schemas/${componentName(decodeURIComponent(inner.slice('#/$defs/'.length)))}`]
          : [name, isValue(name) ? inner : withComponentRefs(inner)],
      ),
  )
}

function isValue(keyword: string): boolean {
  return keyword === 'examples' || keyword === 'default' || keyword === 'const' || keyword === 'enum'
}

function asJson(value: unknown): Json {
  return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {}
}
