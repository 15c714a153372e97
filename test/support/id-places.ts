import { type Route, openApi, routeTable } from '@postern/contracts'
import { asJson } from './published.ts'

/** A place for an id in requests of a route: `:id` of the path, `?owner` of the query, `/owner/person_id` of a body. */
export interface IdPlace {
  readonly route: Route
  readonly place: string
}

const document = asJson(JSON.parse(JSON.stringify(openApi('https://postern.example'))))
const schemas = asJson(asJson(document['components'])['schemas'])

/** Names chosen by integrators, which are not ids: pushed hierarchies and SCIM names. */
const namesOnly = /^(?:sync\.push-org-structure|sync\.scim-get-(?:schema|resource-type)|gateway\.(?:problem|guide))\b/

/** Returns every place for an id in the OpenAPI document. */
export function idPlaces(): IdPlace[] {
  return routeTable.flatMap((route) => {
    const item = asJson(asJson(document['paths'])[route.path.replaceAll(/:(\w+)/g, '{$1}')])
    const operation = asJson(item[route.method.toLowerCase()])
    const parameters = asList(operation['parameters']).map(asJson)
    const inPath = namesOnly.test(route.id) ? [] : Object.keys(route.params?.shape ?? {}).map((name) => `:${name}`)
    const inQuery = parameters
      .filter(({ in: place, schema, description }) => place === 'query' && (takesId(schema) || isOfIds(description)))
      .map(({ name }) => `?${String(name)}`)
    const [media] = Object.values(asJson(asJson(operation['requestBody'])['content']))
    const inBody = new Set(pointersIn(asJson(media)['schema'], ''))
    return [...inPath, ...inQuery, ...inBody].map((place) => ({ route, place }))
  })
}

/** Returns the places of a value in a request. */
export function placesOf(
  value: string,
  { path, body }: { readonly path: string; readonly body?: unknown },
  route: Route,
): string[] {
  const [target = '', query = ''] = path.split('?', 2)
  const names = route.path.split('/')
  return [
    ...target.split('/').flatMap((part, at) => (part.includes(value) ? [names[at] ?? ''] : [])),
    ...[...new URLSearchParams(query)].flatMap(([name, given]) => (given.includes(value) ? [`?${name}`] : [])),
    ...pointersTo(value, route.form === undefined ? body : { metadata: metadataOf(body) }, ''),
  ]
}

/** Returns the metadata in the text of a form. */
function metadataOf(form: unknown): unknown {
  const [, json = '{}'] = /name="metadata"\r\n\r\n([^\r]*)/.exec(String(form)) ?? []
  return JSON.parse(json)
}

/** Returns the route of a request. */
export function routeOf(method: string, path: string): Route {
  const [target = ''] = path.split('?', 1)
  const fits = routeTable
    .filter((route) => route.method === method)
    .filter(({ path: pattern }) => new RegExp(`^${pattern.replaceAll(/:[a-z_]+/g, '[^/]+')}$`).test(target))
    .toSorted((a, b) => a.path.split(':').length - b.path.split(':').length)
  const [route] = fits
  if (route === undefined) throw new Error(`there is no ${method} ${target}`)
  return route
}

/** Returns the documented example of a route's body. */
export function exampleOf(route: Route): unknown {
  const item = asJson(asJson(document['paths'])[route.path.replaceAll(/:(\w+)/g, '{$1}')])
  const [media] = Object.values(asJson(asJson(asJson(item[route.method.toLowerCase()])['requestBody'])['content']))
  return asJson(media)['example']
}

function pointersTo(value: string, body: unknown, at: string): string[] {
  if (body === value) return [at]
  if (Array.isArray(body)) return body.flatMap((item) => pointersTo(value, item, `${at}/*`))
  return Object.entries(asJson(body)).flatMap(([name, member]) => pointersTo(value, member, `${at}/${name}`))
}

/** Returns the places in a schema that accept an id or a reference. */
function pointersIn(schema: unknown, at: string, within: readonly string[] = []): string[] {
  const { $ref, properties, items, anyOf, oneOf, allOf } = asJson(schema)
  if (typeof $ref === 'string') {
    const name = $ref.slice('#/components/schemas/'.length)
    return within.includes(name) ? [] : pointersIn(schemas[name], at, [...within, name])
  }
  return [
    ...(isId(schema) ? [at] : []),
    ...[anyOf, oneOf, allOf].flatMap(asList).flatMap((each) => pointersIn(each, at, within)),
    ...Object.entries(asJson(properties)).flatMap(([name, each]) => pointersIn(each, `${at}/${name}`, within)),
    ...(items === undefined ? [] : pointersIn(items, `${at}/*`, within)),
  ]
}

function isId(schema: unknown): boolean {
  const { format, pattern } = asJson(schema)
  return format === 'uuid' || (typeof pattern === 'string' && pattern.includes('[0-9A-Fa-f]{8}'))
}

function takesId(schema: unknown): boolean {
  return pointersIn(schema, '').length > 0
}

/** Texts that can contain ids say so in their description. */
function isOfIds(description: unknown): boolean {
  return /\bId\b/.test(String(description ?? ''))
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
