import { agentOpenApi, agentOperations, listAgentRoutes, publishedOpenApi } from '@postern/contracts'
import { type Json, asJson, asList, resolveReference } from '@postern/contracts/internal'

/** An operation of the API as a tool of the Model Context Protocol. */
export interface AgentTool {
  readonly name: string
  readonly title: string
  readonly description: string
  /** JSON Schema of the arguments: parameters and members of the body, by name. */
  readonly inputSchema: { readonly type: 'object'; readonly properties: Json; readonly required: string[] }
  readonly method: string
  /** With parameters as `{name}`. */
  readonly path: string
  readonly queryNames: ReadonlySet<string>
  readonly bodyMediaType: string | undefined
  readonly scopes: readonly string[]
  /** Members that answers are limited to by default. */
  readonly fields: readonly string[] | undefined
}

// Never requested: it only appears in the document.
const anyServer = 'https://postern.example.com'

export function readTools(): AgentTool[] {
  // The document of all routes would be most of a start.
  const published = publishedOpenApi(anyServer, listAgentRoutes())
  const document = asJson(JSON.parse(JSON.stringify(agentOpenApi(published))))
  const tools = new Map<string, AgentTool>()
  for (const [path, item] of Object.entries(asJson(document['paths']))) {
    for (const [method, operation] of Object.entries(asJson(item))) {
      const tool = toolOf(document, method.toUpperCase(), path, asJson(operation))
      tools.set(tool.name, tool)
    }
  }
  return agentOperations.flatMap(({ operationId, fields }) => {
    const tool = tools.get(operationId)
    return tool === undefined ? [] : [{ ...tool, fields }]
  })
}

function toolOf(document: Json, method: string, path: string, operation: Json): AgentTool {
  const parameters = asList(operation['parameters']).map((each) => asJson(inlineReferences(each, document)))
  const content = Object.entries(asJson(asJson(inlineReferences(operation['requestBody'], document))['content']))
  const [bodyMediaType, media] = content[0] ?? []
  const body = asJson(asJson(media)['schema'])
  const required = parameters.filter((each) => each['required'] === true).map(argumentNameOf)
  const properties = Object.fromEntries(
    parameters.map((each) => [
      argumentNameOf(each),
      { ...asJson(each['schema']), description: each['description'] ?? '' },
    ]),
  )
  return {
    name: String(operation['operationId']),
    title: String(operation['summary']),
    description: String(operation['description']),
    inputSchema: {
      type: 'object',
      properties: { ...properties, ...asJson(body['properties']) },
      required: [...required, ...asList(body['required']).map(String)],
    },
    method,
    path,
    queryNames: new Set(parameters.filter((each) => each['in'] === 'query').map(argumentNameOf)),
    bodyMediaType,
    scopes: scopesOf(operation['x-required-scope']),
    fields: undefined,
  }
}

/** Agents know no headers: the only one is the entity tag that a change must name. */
function argumentNameOf({ name }: Json): string {
  return name === 'If-Match' ? 'etag' : String(name)
}

function scopesOf(required: unknown): string[] {
  if (typeof required === 'string') return [required]
  return asList(asJson(required)['oneOf']).map(String)
}

/** Many clients cannot follow references. The schemas that agents send are not recursive. */
function inlineReferences(value: unknown, document: Json): unknown {
  if (Array.isArray(value)) return asList(value).map((each) => inlineReferences(each, document))
  if (typeof value !== 'object' || value === null) return value
  const { $ref, ...more } = asJson(value)
  if (typeof $ref === 'string')
    return { ...asJson(inlineReferences(resolveReference(value, document), document)), ...more }
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, inlineReferences(each, document)]))
}
