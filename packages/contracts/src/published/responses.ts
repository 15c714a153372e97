import { problemMediaType } from '../problem.ts'
import { scimMediaType } from '../scim/error.ts'
import { type Json, asJson, asList, mapMembers, omit, schemaNameOf, schemaRef } from './json.ts'

/** All others are described by `default`. */
const ownStatuses: ReadonlySet<string> = new Set([
  '400',
  '401',
  '403',
  '404',
  '409',
  '410',
  '412',
  '413',
  '422',
  '428',
  '429',
  '503',
])

export type SharedResponses = Map<string, Json>

/** The components list all codes of a status; those of the operation are in `x-problem-codes`. */
export function shareResponses(operation: Json, shared: SharedResponses): Json {
  const responses = asJson(operation['responses'])
  const codes: string[] = []
  const kept: Record<string, unknown> = {}
  let family = 'Problem'
  for (const [status, response] of Object.entries(responses)) {
    if (status === '304') {
      addNotModified(shared, asJson(response))
      kept[status] = { $ref: '#/components/responses/NotModified' }
      continue
    }
    if (Number(status) < 400) {
      kept[status] = response
      continue
    }
    const [media] = Object.values(asJson(asJson(response)['content']))
    const { examples, schema } = asJson(media)
    codes.push(...Object.keys(asJson(examples)))
    family = schemaNameOf(schema) ?? family
    const name = ownStatuses.has(status) ? family + status : `${family}Response`
    addErrorResponse(shared, name, asJson(response))
    if (ownStatuses.has(status)) kept[status] = { $ref: `#/components/responses/${name}` }
  }
  return {
    ...operation,
    responses: { ...kept, default: { $ref: `#/components/responses/${family}Response` } },
    'x-problem-codes': codes,
  }
}

export function commonProblemCodes(operations: readonly Json[]): string[] {
  const [first = [], ...others] = operations.filter(needsCredentials).map(problemCodesOf)
  return first.filter((code) => others.every((codes) => codes.includes(code)))
}

export function withoutProblemCodes(operation: Json, common: readonly string[]): Json {
  if (!needsCredentials(operation)) return operation
  return { ...operation, 'x-problem-codes': problemCodesOf(operation).filter((code) => !common.includes(code)) }
}

function needsCredentials(operation: Json): boolean {
  return asList(operation['security']).length > 0
}

function problemCodesOf(operation: Json): string[] {
  return asList(operation['x-problem-codes']).map(String)
}

function addErrorResponse(shared: SharedResponses, name: string, response: Json): void {
  const before = shared.get(name)
  const [mediaType = ''] = Object.keys(asJson(response['content']))
  const media = asJson(asJson(response['content'])[mediaType])
  const known = asJson(asJson(asJson(before?.['content'])[mediaType])['examples'])
  const examples = { ...known, ...asJson(media['examples']) }
  shared.set(name, {
    description: describe(examples),
    headers: commonHeaders(before, response),
    content: { [mediaType]: { schema: media['schema'], examples }, ...faultsOfHttp(mediaType) },
  })
}

function addNotModified(shared: SharedResponses, response: Json): void {
  shared.set('NotModified', { ...response, headers: commonHeaders(shared.get('NotModified'), response) })
}

/** A fault of HTTP is found before the path is known, so also SCIM has problem documents. */
function faultsOfHttp(mediaType: string): Json {
  return mediaType === scimMediaType ? { [problemMediaType]: { schema: schemaRef('Problem') } } : {}
}

function commonHeaders(before: Json | undefined, response: Json): Json {
  const headers = Object.entries(asJson(response['headers']))
  if (before === undefined) return Object.fromEntries(headers)
  return Object.fromEntries(headers.filter(([name]) => name in asJson(before['headers'])))
}

function describe(examples: Json): string {
  const texts = Object.entries(examples).map(([code, example]) => {
    const { title, detail } = asJson(asJson(example)['value'])
    return `\`${code}\`: ${String(title ?? detail)}`
  })
  return texts.join('; ')
}

export function shareEntityTag(response: unknown): unknown {
  const { headers, ...rest } = asJson(response)
  if (asJson(headers)['ETag'] === undefined) return response
  return { ...rest, headers: { ...asJson(headers), ETag: { $ref: '#/components/headers/ETag' } } }
}

/** The other schemas have some of its members, or a list of it. */
export function withOneSchema(response: unknown): unknown {
  const { content, ...rest } = asJson(response)
  if (content === undefined) return response
  return {
    ...rest,
    content: mapMembers(content, (media) => {
      const { schema, ...others } = asJson(media)
      const [first] = asList(asJson(schema)['anyOf'])
      return { schema: first ?? schema, ...others }
    }),
  }
}

/** Resources that a response can contain in part, each with the members that it always has. */
export function partialResources(document: Json): Map<string, ReadonlySet<string>> {
  const found = new Map<string, ReadonlySet<string>>()
  const schemas = asJson(asJson(document['components'])['schemas'])
  const keep = (name: string, members: readonly unknown[]): void => {
    const before = found.get(name)
    const names = members.map(String).filter((member) => before?.has(member) ?? true)
    found.set(name, new Set(names))
  }
  for (const item of Object.values(asJson(document['paths']))) {
    for (const operation of Object.values(asJson(item)).map(asJson)) {
      const takesFields = asList(operation['parameters']).some((each) => asJson(each)['name'] === 'fields')
      const successes = Object.entries(asJson(operation['responses'])).filter(([status]) => Number(status) < 400)
      for (const response of successes.map(([, each]) => asJson(each))) {
        const [media] = Object.values(asJson(response['content'])).map(asJson)
        const schema = asJson(media?.['schema'])
        const resource = schemaNameOf(schema) ?? schemaNameOf(schema['items'])
        if (takesFields && resource !== undefined) keep(resource, [])
        const [whole, stub] = asList(schema['anyOf']).map(schemaNameOf)
        if (whole !== undefined && stub !== undefined) keep(whole, asList(asJson(schemas[stub])['required']))
      }
    }
  }
  return found
}

export function withRequired(schema: Json, members: ReadonlySet<string>): Json {
  const required = asList(schema['required']).filter((name) => members.has(String(name)))
  return required.length === 0 ? omit(schema, 'required') : { ...schema, required }
}
