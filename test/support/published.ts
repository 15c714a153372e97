import { type Route, openApi } from '@postern/contracts'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'

type Json = Readonly<Record<string, unknown>>

/** A route as in the OpenAPI document, for a reader who has only the document. */
export interface Published {
  /** Why a body of an answer is not what is published; `members`: those that `fields` has left. Undefined where it is. */
  faultOfAnswer(status: number, mediaType: string, body: unknown, members?: readonly string[]): string | undefined
  /** The same of one item of an answer as NDJSON. */
  faultOfItem(body: unknown, members?: readonly string[]): string | undefined
  /** Why a body of a request is not one; undefined where it is, or where none is described. */
  faultOfBody(body: unknown): string | undefined
  /** Why the value of a parameter, or the values of one that is repeated, is not one. */
  faultOfParameter(name: string, value: string | readonly string[]): string | undefined
}

const known = new Map<string, Published>()

/** What is published of a route. It is made when it is asked for first: all of the document takes most of a second. */
export function publishedOf(route: Route): Published {
  const published = known.get(route.id) ?? read(route)
  known.set(route.id, published)
  return published
}

const origin = 'https://postern.example'

const ajv = new Ajv2020({ strict: false, validateFormats: true })
formats.default(ajv)

type Check = (value: unknown) => string | undefined

/** Checks by what they check: a component means the same in every route. */
const checks = new Map<string, Check>()

function checkOf(schema: unknown, components: unknown): Check {
  const name = JSON.stringify(schema)
  const made = checks.get(name)
  if (made !== undefined) return made
  // References point to `#/components/schemas/…`, so the components are added to the schema.
  const validate = ajv.compile({ ...(name.includes('"$ref"') ? { components } : {}), ...asJson(schema) })
  const check: Check = (value) => (validate(value) ? undefined : ajv.errorsText(validate.errors))
  checks.set(name, check)
  return check
}

function read(route: Route): Published {
  // As it goes over the wire.
  const document: Json = JSON.parse(JSON.stringify(openApi(origin, [route])))
  const [item = {}] = Object.values(asJson(document['paths']))
  const operation = asJson(asJson(item)[route.method.toLowerCase()])
  const components = document['components']
  const resolve = (schema: unknown): Json => {
    const { $ref } = asJson(schema)
    if (typeof $ref !== 'string') return asJson(schema)
    return asJson(asJson(asJson(components)['schemas'])[$ref.slice('#/components/schemas/'.length)])
  }
  const limited = (schema: unknown, members: readonly string[] | undefined): unknown =>
    members === undefined ? schema : withMembers(resolve(schema), members, resolve)
  const contentOf = (status: number, mediaType: string): Json =>
    asJson(asJson(asJson(asJson(operation['responses'])[String(status)])['content'])[mediaType])
  return {
    faultOfAnswer: (status, mediaType, body, members) => {
      // A head that is too large is refused before anybody knows whose format is asked for.
      if (status === 431) return undefined
      const { schema } = contentOf(status, mediaType)
      if (schema === undefined) return `nothing is published of ${mediaType} with ${status}`
      return checkOf(limited(schema, members), components)(body)
    },
    faultOfItem: (body, members) => {
      const schema = contentOf(200, 'application/x-ndjson')['x-item-schema']
      return checkOf(limited(schema, members), components)(body)
    },
    faultOfBody: (body) => {
      const [media] = Object.values(asJson(asJson(operation['requestBody'])['content']))
      const { schema } = asJson(media)
      return schema === undefined ? undefined : checkOf(schema, components)(body)
    },
    faultOfParameter: (name, value) => {
      const parameter = asList(operation['parameters'])
        .map(asJson)
        .find((each) => each['name'] === name && each['in'] === 'query')
      if (parameter === undefined) return `no parameter ${name} is published`
      const { schema } = parameter
      return checkOf(schema, components)(readAs(asJson(schema)['type'], value))
    },
  }
}

/** A number of a query is text on the wire. */
function readAs(type: unknown, value: string | readonly string[]): unknown {
  return type === 'integer' && typeof value === 'string' && /^-?[0-9]{1,15}$/.test(value) ? Number(value) : value
}

/** What is left of a resource, or of each of a list, when only some members of it were asked for. */
function withMembers(schema: Json, members: readonly string[], resolve: (schema: unknown) => Json): Json {
  if (schema['type'] === 'array') return { ...schema, items: withMembers(resolve(schema['items']), members, resolve) }
  const { properties, required } = schema
  return {
    ...schema,
    properties: Object.fromEntries(Object.entries(asJson(properties)).filter(([name]) => members.includes(name))),
    required: asList(required).filter((name) => members.some((member) => member === name)),
  }
}

export function asJson(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {}
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
