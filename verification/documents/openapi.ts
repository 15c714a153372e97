import { openApi, publishedOpenApi } from '@postern/contracts'
import { type Json as JsonObject, asJson as asObject, asList, resolveReference } from '@postern/contracts/internal'

export { type Json as JsonObject, asJson as asObject, asList } from '@postern/contracts/internal'

const serverUrl = 'https://postern.example.com'

export interface Operation {
  readonly method: string
  readonly path: string
  readonly summary: string
  readonly body: { readonly schema: unknown; readonly isRequired: boolean } | undefined
  /** Undefined if there is no content. */
  readonly answer: unknown
  readonly query: readonly { readonly name: string; readonly schema: unknown; readonly isRequired: boolean }[]
  /** In lower case. */
  readonly headers: ReadonlySet<string>
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

export function readPublished(): JsonObject {
  return asObject(JSON.parse(JSON.stringify(publishedOpenApi(serverUrl))))
}

/** The members that a whole resource always has; the published document allows for `fields`. */
export function readWholeSchemas(): JsonObject {
  return schemasOf(asObject(JSON.parse(JSON.stringify(openApi(serverUrl)))))
}

export function schemasOf(document: JsonObject): JsonObject {
  return asObject(asObject(document['components'])['schemas'])
}

export function operationsOf(document: JsonObject): ReadonlyMap<string, Operation> {
  const operations = new Map<string, Operation>()
  for (const [path, item] of Object.entries(asObject(document['paths']))) {
    for (const [method, value] of Object.entries(asObject(item))) {
      const operation = asObject(value)
      const id = textOf(operation['operationId'])
      if (id !== undefined) operations.set(id, operationOf(document, method.toUpperCase(), path, operation))
    }
  }
  return operations
}

function operationOf(document: JsonObject, method: string, path: string, operation: JsonObject): Operation {
  const parameters = asList(operation['parameters']).map((each) => resolve(document, each))
  const body = resolve(document, operation['requestBody'])
  const schema = jsonSchemaOf(body) ?? asObject(asObject(body['content'])['application/merge-patch+json'])['schema']
  const answer = Object.entries(asObject(operation['responses'])).find(([status]) => status.startsWith('2'))
  return {
    method,
    path,
    summary: textOf(operation['summary']) ?? '',
    body: schema === undefined ? undefined : { schema, isRequired: body['required'] === true },
    answer: jsonSchemaOf(resolve(document, answer?.[1])),
    query: parameters
      .filter((parameter) => parameter['in'] === 'query')
      .map((parameter) => ({
        name: textOf(parameter['name']) ?? '',
        schema: parameter['schema'],
        isRequired: parameter['required'] === true,
      })),
    headers: new Set(
      parameters.flatMap((parameter) =>
        parameter['in'] === 'header' ? [(textOf(parameter['name']) ?? '').toLowerCase()] : [],
      ),
    ),
  }
}

function jsonSchemaOf(holder: JsonObject): unknown {
  return asObject(asObject(holder['content'])['application/json'])['schema']
}

function resolve(document: JsonObject, value: unknown): JsonObject {
  return asObject(resolveReference(value, document))
}
