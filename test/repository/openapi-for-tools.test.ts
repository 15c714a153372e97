import { openApi, publishedOpenApi } from '@postern/contracts'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { describe, expect, test } from 'vitest'
import { asJson } from '../support/published.ts'

type Json = Readonly<Record<string, unknown>>

const origin = 'https://postern.example'
const exact = asWire(openApi(origin))
const published = asWire(publishedOpenApi(origin))
const components = asJson(published['components'])

/** A document as a client reads it. */
function asWire(document: object): Json {
  return JSON.parse(JSON.stringify(document))
}

/** Returns the problem codes in the error examples of an operation of the exact document. */
function errorCodesOf({ responses }: Json): string[] {
  const errors = Object.entries(asJson(responses)).filter(([status]) => Number(status) >= 400)
  const media = errors.flatMap(([, response]) => Object.values(asJson(asJson(response)['content'])))
  return media.flatMap((each) => Object.keys(asJson(asJson(each)['examples']))).toSorted()
}

/** A number in a query is text. */
function readAs(schema: unknown, example: unknown): unknown {
  return asJson(schema)['type'] === 'integer' ? Number(example) : example
}

/** The JSON of a body or response. */
function jsonOf(value: unknown): Json {
  return asJson(asJson(asJson(value)['content'])['application/json'])
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

const values = new Set(['example', 'examples', 'enum', 'default', 'const'])

/** Returns every schema of a document with its place: those of components, parameters, bodies and responses. */
function schemasOf(document: Json): (readonly [place: string, schema: Json])[] {
  const found: (readonly [string, Json])[] = []
  const visit = (value: unknown, place: string, isSchema: boolean): void => {
    if (typeof value !== 'object' || value === null) return
    if (isSchema && !Array.isArray(value)) found.push([place, asJson(value)])
    for (const [name, part] of Object.entries(value)) {
      if (isSchema && values.has(name)) continue
      const areSchemas = ['properties', 'schemas', '$defs'].includes(name)
      if (areSchemas) {
        for (const [member, each] of Object.entries(asJson(part))) visit(each, `${place}/${name}/${member}`, true)
      } else if (!['example', 'examples'].includes(name)) {
        visit(part, `${place}/${name}`, isSchema || name === 'schema' || name === 'x-item-schema')
      }
    }
  }
  visit(document, '', false)
  return found
}

function operationsOf(document: Json): (readonly [name: string, operation: Json])[] {
  return Object.entries(asJson(document['paths'])).flatMap(([path, item]) =>
    Object.entries(asJson(item)).map(([method, operation]) => [`${method} ${path}`, asJson(operation)] as const),
  )
}

/** Constructs that a client generator, an agent or a validator cannot use, and where a document has them. */
const constructs: Readonly<Record<string, (document: Json) => string[]>> = {
  'a security scheme of a type that few tools know': (document) =>
    Object.entries(asJson(asJson(document['components'])['securitySchemes'])).flatMap(([name, scheme]) =>
      asJson(scheme)['type'] === 'http' && asJson(scheme)['scheme'] !== 'bearer' ? [name] : [],
    ),
  'a security scheme that is named like a schema': (document) => {
    const names = Object.keys(asJson(asJson(document['components'])['schemas'])).map((name) => name.toLowerCase())
    const schemes = Object.keys(asJson(asJson(document['components'])['securitySchemes']))
    return schemes.filter((name) => names.includes(name.toLowerCase()))
  },
  'a body without a type': (document) =>
    operationsOf(document).flatMap(([name, { requestBody }]) =>
      Object.entries(asJson(asJson(requestBody)['content'])).flatMap(([mediaType, media]) =>
        mediaType === '*/*' || Object.keys(asJson(asJson(media)['schema'])).length === 0 ? [name] : [],
      ),
    ),
  'a parameter with several types': (document) =>
    operationsOf(document).flatMap(([name, { parameters }]) =>
      asList(parameters).flatMap((each) => {
        const { schema } = asJson(each)
        return asJson(schema)['anyOf'] === undefined ? [] : [`${name} ${String(asJson(each)['name'])}`]
      }),
    ),
  'a response with several schemas': (document) =>
    operationsOf(document).flatMap(([name, { responses }]) =>
      Object.values(asJson(responses)).flatMap((response) =>
        Object.values(asJson(asJson(response)['content'])).flatMap((media) =>
          asJson(asJson(media)['schema'])['anyOf'] === undefined ? [] : [name],
        ),
      ),
    ),
  'a list that is described in several media types': (document) =>
    operationsOf(document).flatMap(([name, { responses }]) =>
      Object.values(asJson(responses)).flatMap((response) =>
        'text/csv' in asJson(asJson(response)['content']) ? [name] : [],
      ),
    ),
  'a member of a body with a default': (document) =>
    operationsOf(document).flatMap(([name, { requestBody }]) =>
      reachableFrom(requestBody, document).some(({ properties }) =>
        Object.values(asJson(properties)).some((member) => 'default' in asJson(member)),
      )
        ? [name]
        : [],
    ),
  'a list of files': (document) =>
    schemasOf(document).flatMap(([place, { items }]) => (asJson(items)['format'] === 'binary' ? [place] : [])),
  'a schema with several types': (document) =>
    schemasOf(document).flatMap(([place, { type }]) =>
      asList(type).filter((each) => each !== 'null').length > 1 ? [place] : [],
    ),
  'a schema without a name of its own': (document) =>
    Object.keys(asJson(asJson(document['components'])['schemas'])).filter((name) => name.startsWith('__')),
  'a schema whose name begins with New': (document) =>
    Object.keys(asJson(asJson(document['components'])['schemas'])).filter((name) => /^New[A-Z]/.test(name)),
  'an object as a default': (document) =>
    schemasOf(document).flatMap(([place, { default: fallback }]) =>
      typeof fallback === 'object' && fallback !== null ? [place] : [],
    ),
  'a constant': (document) => schemasOf(document).flatMap(([place, schema]) => ('const' in schema ? [place] : [])),
  'a pattern that Python or Go cannot compile': (document) =>
    schemasOf(document).flatMap(([place, { pattern }]) => (/\\[pu]|\(\?(?!:)/.test(String(pattern)) ? [place] : [])),
  'a pattern that means something else when it is anchored': (document) =>
    schemasOf(document).flatMap(([place, { pattern }]) =>
      typeof pattern === 'string' && !(pattern.startsWith('^') && pattern.endsWith('$')) ? [place] : [],
    ),
  'a word with a tab': (document) =>
    schemasOf(document).flatMap(([place, schema]) =>
      asList(schema['enum']).some((word) => /\t/.test(String(word))) ? [place] : [],
    ),
  'a required list of itself': (document) =>
    Object.entries(asJson(asJson(document['components'])['schemas'])).flatMap(([name, schema]) =>
      Object.entries(asJson(asJson(schema)['properties'])).flatMap(([member, property]) =>
        asJson(asJson(property)['items'])['$ref'] === `#/components/schemas/${name}` &&
        asList(asJson(schema)['required']).includes(member)
          ? [`${name}.${member}`]
          : [],
      ),
    ),
  'an entity tag that is described twice': (document) =>
    operationsOf(document).flatMap(([name, { responses }]) =>
      Object.values(asJson(responses)).flatMap((response) => {
        const tag = asJson(asJson(response)['headers'])['ETag']
        return tag === undefined || asJson(tag)['$ref'] !== undefined ? [] : [name]
      }),
    ),
  'an operation id that cannot name a function': (document) =>
    operationsOf(document).flatMap(([name, { operationId }]) =>
      /^[a-z][A-Za-z]*$/.test(String(operationId)) ? [] : [name],
    ),
  'an error that is written out at an operation': (document) =>
    operationsOf(document).flatMap(([name, { responses }]) =>
      Object.entries(asJson(responses)).flatMap(([status, response]) =>
        Number(status) < 400 || asJson(response)['$ref'] !== undefined ? [] : [`${name} ${status}`],
      ),
    ),
  'a response that may have no further members': (document) =>
    operationsOf(document).flatMap(([name, { responses }]) =>
      reachableFrom(responses, document).some((schema) => schema['additionalProperties'] === false) ? [name] : [],
    ),
}

/** Returns the schemas in a value and those that they refer to. */
function reachableFrom(value: unknown, document: Json): Json[] {
  const seen = new Set<string>()
  const found: Json[] = []
  const visit = (part: unknown): void => {
    if (typeof part !== 'object' || part === null) return
    const { $ref } = asJson(part)
    if (typeof $ref === 'string') {
      if (seen.has($ref)) return
      seen.add($ref)
      visit(
        $ref
          .split('/')
          .slice(1)
          .reduce<unknown>((inner, name) => asJson(inner)[name], document),
      )
      return
    }
    found.push(asJson(part))
    for (const [name, inner] of Object.entries(part)) if (!values.has(name)) visit(inner)
  }
  visit(value)
  return found
}

test.each(Object.entries(constructs))('the published OpenAPI document has nowhere %s', (_name, find) => {
  expect(find(published)).toEqual([])
  // Control: the exact document has it.
  expect(find(exact).length).toBeGreaterThan(0)
})

describe('the published OpenAPI document', () => {
  test('is valid against the JSON Schema of OpenAPI 3.1', async () => {
    expect(await new Validator().validate(structuredClone(published))).toMatchObject({ valid: true })
  })

  test('has at most 700 KB', () => {
    expect(Buffer.byteLength(JSON.stringify(published))).toBeLessThanOrEqual(700_000)
  })

  test('has no line separator and no control of direction, which generated code cannot contain', () => {
    expect(JSON.stringify(published)).not.toMatch(/[\u2028-\u202e\u2066-\u2069]/)
  })

  test('has the operations of the exact one, each with an id of its own', () => {
    expect(operationsOf(published).map(([name]) => name)).toEqual(operationsOf(exact).map(([name]) => name))
    const ids = operationsOf(published).map(([, { operationId }]) => operationId)
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('refers only to what it has, and has only what is referred to', () => {
    const references = [...JSON.stringify(published).matchAll(/"\$ref":"#\/components\/(\w+\/[^"]+)"/g)].map(
      ([, reference = '']) => reference,
    )
    const held = ['schemas', 'parameters', 'responses', 'headers', 'examples'].flatMap((kind) =>
      Object.keys(asJson(components[kind])).map((name) => `${kind}/${name}`),
    )
    expect([...new Set(references)].toSorted()).toEqual(held.toSorted())
  })

  test('says how a key is sent, and names the problems of each operation', () => {
    expect(asJson(components['securitySchemes'])['keyAuth']).toMatchObject({
      type: 'apiKey',
      in: 'header',
      name: 'Authorization',
    })
    const exactCodes = new Map(operationsOf(exact).map(([name, operation]) => [name, errorCodesOf(operation)]))
    for (const [name, operation] of operationsOf(published)) {
      expect(asJson(operation['responses'])['default'], name).toBeDefined()
      const common = asList(operation['security']).length === 0 ? [] : asList(published['x-problem-codes'])
      expect([...common, ...asList(operation['x-problem-codes'])].toSorted(), name).toEqual(exactCodes.get(name))
    }
  })

  test('describes every member, and gives an example that its schema accepts', () => {
    const schemas = schemasOf(published).filter(([place]) => !place.includes('/Oscal'))
    const members = schemas.filter(([place]) => /\/properties\/[^/]+$/.test(place))
    expect(members.length).toBeGreaterThan(1000)
    expect(members.flatMap(([place, { description }]) => (description === undefined ? [place] : []))).toEqual([])
    for (const [place, schema] of schemas) {
      for (const example of asList(schema['examples'])) {
        expect([place, example, isValid(schema, example)]).toEqual([place, example, true])
      }
    }
    // What `exampleOf` writes where it knows nothing better.
    expect(JSON.stringify(published)).not.toMatch(/"Text\.*"/)
  })

  const ajv = new Ajv2020({ strict: false, validateFormats: true })
  formats.default(ajv)
  const checks = new Map<string, (value: unknown) => boolean>()

  function isValid(schema: unknown, value: unknown): boolean {
    const key = JSON.stringify(schema)
    const known = checks.get(key)
    if (known !== undefined) return known(value)
    const validate = ajv.compile({ components, ...asJson(schema) })
    const check = (each: unknown): boolean => validate(each)
    checks.set(key, check)
    return check(value)
  }

  function resolve(value: unknown): Json {
    const { $ref } = asJson(value)
    if (typeof $ref !== 'string') return asJson(value)
    return asJson(
      $ref
        .split('/')
        .slice(1)
        .reduce<unknown>((inner, name) => asJson(inner)[name], published),
    )
  }

  test.each(operationsOf(published))('accepts its own examples: %s', (_name, operation) => {
    for (const { name, schema, example } of asList(operation['parameters']).map(resolve)) {
      if (example !== undefined)
        expect([name, example, isValid(schema, readAs(schema, example))]).toEqual([name, example, true])
    }
    const bodies = [asJson(operation['requestBody']), ...Object.values(asJson(operation['responses'])).map(resolve)]
    for (const media of bodies.flatMap((body) => Object.values(asJson(body['content'])).map(asJson))) {
      const shown =
        'example' in media
          ? [media['example']]
          : Object.values(asJson(media['examples'])).map((each) => resolve(each)['value'])
      for (const value of shown) expect([value, isValid(media['schema'], value)]).toEqual([value, true])
    }
  })

  test('rejects an unknown member of a body, and accepts one of a response', () => {
    const { requestBody, responses } = asJson(asJson(asJson(published['paths'])['/api/v1/findings'])['post'])
    const { schema } = jsonOf(requestBody)
    const body = { title: 'A', condition: 'B', severity: 'low' }
    expect([isValid(schema, body), isValid(schema, { ...body, colour: 1 })]).toEqual([true, false])
    const made = jsonOf(asJson(responses)['201'])
    expect(isValid(made['schema'], { ...asJson(made['example']), colour: 1 })).toBe(true)
  })
})
