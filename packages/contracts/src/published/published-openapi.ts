import { type Json, asJson, asList, mapMembers, omit, schemaNameOf, schemaRef } from './json.ts'
import { linesMediaType, pageMediaType, workbookMediaType } from '../media-types.ts'
import { openApi } from '../openapi.ts'
import type { Route } from '../route.ts'
import { connectorConfigSchemas } from '../sync/connector-configs.ts'
import { type SharedExamples, shareExamples } from './examples.ts'
import { operationIdOf } from './operation-id.ts'
import { type SharedParameters, shareParameters, simplifyParameter } from './parameters.ts'
import {
  type SharedResponses,
  commonProblemCodes,
  partialResources,
  shareEntityTag,
  shareResponses,
  withOneSchema,
  withRequired,
  withoutProblemCodes,
} from './responses.ts'
import { shareSuccesses } from './successes.ts'
import { type SimplifyOptions, simplifySchema } from './simplify-schema.ts'

/** All of one type: some clients send the last of several, and `http` would replace the header of a key. */
const securitySchemes = {
  keyAuth: {
    type: 'apiKey',
    in: 'header',
    name: 'Authorization',
    description: 'An API key: `ApiKey`, a blank and the key, such as `ApiKey postern_…`.',
  },
  providerAuth: {
    type: 'apiKey',
    in: 'header',
    name: 'Authorization',
    description: 'Only below `/scim/v2`, an API key as identity providers send it: `Bearer`, a blank and the key.',
  },
  personAuth: {
    type: 'apiKey',
    in: 'header',
    name: 'Authorization',
    description: 'The access token (OpenID Connect) of a person: `Bearer`, a blank and the token.',
  },
}

const schemeNames: Readonly<Record<string, string>> = {
  apiKey: 'keyAuth',
  provider: 'providerAuth',
  person: 'personAuth',
}

const introduction =
  'Send `Authorization: ApiKey <key>` with each request. Lists return a JSON array; `Link` names the next page. ' +
  'A filter that names something unknown matches nothing. ' +
  'A `PATCH` may contain all members as they were read: equal ones change nothing. ' +
  'Errors are problem documents (RFC 9457) with a stable `code`.'

/**
 * Turns the exact document into forms that client generators, agents and low-code platforms understand. Accepts at least
 * the same requests. `serverUrl` is the origin or base path of the API.
 */
export function publishedOpenApi(serverUrl: string, routes?: readonly Route[]): Json {
  const exact = openApi(serverUrl, routes)
  const components = asJson(exact['components'])
  const schemas = asJson(components['schemas'])
  const inRequests = reachable(exact, schemas, (operation) => operation['requestBody'])
  const inResponses = reachable(exact, schemas, (operation) => operation['responses'])
  const sent: SimplifyOptions = {
    nameOf: (name) => (inResponses.has(name) ? `${publicName(name)}Input` : publicName(name)),
    isStrict: true,
  }
  const received: SimplifyOptions = { nameOf: publicName, isStrict: false }
  const partial = partialResources(exact)

  const published: Record<string, unknown> = {}
  for (const [name, schema] of Object.entries(schemas)) {
    if (inRequests.has(name) || !inResponses.has(name)) published[sent.nameOf(name)] = simplifySchema(schema, sent)
    if (!inResponses.has(name)) continue
    const members = partial.get(name)
    const limited = members === undefined ? asJson(schema) : withRequired(asJson(schema), members)
    published[received.nameOf(name)] = simplifySchema(limited, received)
  }
  replaceRecursion(published)
  describeConfigs(published)

  const responses: SharedResponses = new Map()
  const simple: Json[] = []
  for (const [, , operation] of operationsOf(exact)) {
    simple.push(shareResponses(simplifyOperation(operation, { sent, received }), responses))
  }
  const parameters: SharedParameters = new Map()
  const problemCodes = commonProblemCodes(simple)
  const examples: SharedExamples = new Map()
  const withExamples = shareExamples(
    shareParameters(simple, parameters).map((each) => withoutProblemCodes(each, problemCodes)),
    examples,
  )
  const shared = shareSuccesses(withExamples, responses)
  const paths: Record<string, Record<string, unknown>> = {}
  for (const [at, [path, method]] of operationsOf(exact).entries()) (paths[path] ??= {})[method] = shared[at]
  return {
    ...exact,
    info: { ...asJson(exact['info']), description: introduction },
    paths,
    components: {
      schemas: withoutUnused(published, [paths, [...responses.values()], [...parameters.values()]]),
      parameters: Object.fromEntries(parameters),
      responses: Object.fromEntries(responses),
      examples: Object.fromEntries(examples),
      headers: components['headers'],
      securitySchemes,
    },
    'x-problem-codes': problemCodes,
  }
}

function operationsOf(document: Json): (readonly [path: string, method: string, operation: Json])[] {
  return Object.entries(asJson(document['paths'])).flatMap(([path, item]) =>
    Object.entries(asJson(item)).map(([method, operation]) => [path, method, asJson(operation)] as const),
  )
}

interface SimplifyBySide {
  readonly sent: SimplifyOptions
  readonly received: SimplifyOptions
}

function simplifyOperation(operation: Json, { sent, received }: SimplifyBySide): Json {
  const { requestBody, responses, security, ...rest } = operation
  return {
    ...rest,
    operationId: operationIdOf(String(operation['operationId'])),
    security: simplifySecurity(security),
    parameters: asList(operation['parameters'])
      .map(asJson)
      .filter((parameter) => !formParameters.has(String(parameter['name'])))
      .map((parameter) => simplifyParameter(withFileName(parameter), sent)),
    ...(requestBody === undefined ? {} : { requestBody: simplifyBody(asJson(requestBody), sent) }),
    responses: mapMembers(responses, (response) => {
      const single = withoutExports(asJson(shareEntityTag(withOneSchema(response))))
      return { ...single, ...simplifyContent(single, received) }
    }),
  }
}

/** Generated clients cannot read the forms that they ask for. The description of the response names them. */
const formParameters: ReadonlySet<string> = new Set(['format', 'envelope'])

/** Scopes are in `x-required-scope`: OpenAPI knows none for keys. */
function simplifySecurity(security: unknown): Json[] {
  const names = asList(security).flatMap((each) => Object.keys(asJson(each)))
  return [...new Set(names)].map((name) => ({ [schemeNames[name] ?? name]: [] }))
}

function withFileName(parameter: Json): Json {
  return parameter['name'] === 'file_name' ? { ...parameter, required: true } : parameter
}

const anyBytes = { type: 'string', format: 'binary' }

function simplifyBody(body: Json, how: SimplifyOptions): Json {
  const content = asJson(body['content'])
  const isFile = Object.values(content).every((media) => Object.keys(asJson(asJson(media)['schema'])).length === 0)
  if (!isFile) return { ...body, ...simplifyContent(body, how) }
  const [first = ''] = Object.keys(content)
  const mediaTypes = first === '*/*' ? ['application/octet-stream'] : Object.keys(content)
  return { ...body, content: Object.fromEntries(mediaTypes.map((mediaType) => [mediaType, { schema: anyBytes }])) }
}

function simplifyContent({ content }: Json, how: SimplifyOptions): Json {
  if (content === undefined) return {}
  return {
    content: mapMembers(content, (media) => ({
      ...asJson(media),
      schema: simplifySchema(asJson(media)['schema'], how),
    })),
  }
}

/** Some clients return a stream for every list that also exists as NDJSON. */
function withoutExports(response: Json): Json {
  const content = asJson(response['content'])
  const columns = asJson(content['text/csv'])['x-columns']
  if (columns === undefined) return response
  return {
    ...response,
    description: `${String(response['description'])}. \`format=ndjson|csv|xlsx\`: the whole list. \`envelope=true\`: an object with \`items\``,
    content: omit(content, linesMediaType, 'text/csv', workbookMediaType, pageMediaType),
    'x-columns': columns,
  }
}

/** Go makes a constructor `New…` for each schema. */
function publicName(name: string): string {
  return name.startsWith('__schema') ? 'JsonValue' : name.replace(/^New(?=[A-Z])/, 'Create')
}

function replaceRecursion(published: Record<string, unknown>): void {
  if ('JsonValue' in published) published['JsonValue'] = { description: 'Any JSON value.' }
  for (const [name, schema] of Object.entries(published)) {
    const { properties, required } = asJson(schema)
    const ofItself = Object.entries(asJson(properties)).filter(([, property]) => isListOf(property, name))
    if (ofItself.length === 0) continue
    const members = asList(required).filter((member) => !ofItself.some(([own]) => own === member))
    published[name] = { ...omit(asJson(schema), 'required'), ...(members.length === 0 ? {} : { required: members }) }
  }
}

/** The service tells the configurations apart by the `type` of the connector. */
function describeConfigs(published: Record<string, unknown>): void {
  const anyOf = Object.values(connectorConfigSchemas).map((schema) => schemaRef(String(schema.meta()?.id)))
  for (const name of ['CreateConnector', 'ConnectorChange']) {
    const schema = asJson(published[name])
    const properties = asJson(schema['properties'])
    const { config } = properties
    if (config === undefined || !('CsvConnectorConfig' in published)) continue
    const { description } = asJson(config)
    published[name] = { ...schema, properties: { ...properties, config: { description, anyOf } } }
  }
}

function isListOf(property: unknown, name: string): boolean {
  return schemaNameOf(asJson(property)['items']) === name
}

function reachable(document: Json, schemas: Json, part: (operation: Json) => unknown): ReadonlySet<string> {
  const found = new Set<string>()
  for (const [, , operation] of operationsOf(document)) {
    addReferences(part(operation), schemas, found)
  }
  return found
}

function addReferences(value: unknown, schemas: Json, found: Set<string>): void {
  for (const name of referencesIn(value)) {
    if (found.has(name)) continue
    found.add(name)
    addReferences(schemas[name], schemas, found)
  }
}

function referencesIn(value: unknown): string[] {
  const name = schemaNameOf(value)
  if (name !== undefined) return [name]
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap(referencesIn)
}

function withoutUnused(schemas: Json, uses: unknown): Json {
  const used = new Set<string>()
  addReferences(uses, schemas, used)
  return Object.fromEntries(
    Object.entries(schemas)
      .filter(([name]) => used.has(name))
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  )
}
