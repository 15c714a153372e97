import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { columnsOf, itemSchemaOf, linesMediaType } from './media-types.ts'
import { openApi } from './openapi.ts'
import { problemSchema, problemTypes } from './problem.ts'
import { problemsOf } from './route-problems.ts'
import { routeTable } from './route-table.ts'
import { connectorConfigSchemas } from './sync/connector-configs.ts'
import { isScimTarget, scimErrorSchema, scimMediaType } from './scim/error.ts'

type Json = Readonly<Record<string, unknown>>

const origin = 'http://127.0.0.1:8080'
// As a client reads it: what JSON cannot say is not in it.
const document = record(JSON.parse(JSON.stringify(openApi(origin))))

function record(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {}
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function at(root: unknown, ...names: readonly string[]): unknown {
  return names.reduce<unknown>((value, name) => record(value)[name], root)
}

/** Every object in a value, with the names that lead to it. */
function objectsIn(value: unknown, path: readonly string[] = []): readonly (readonly [readonly string[], Json])[] {
  if (Array.isArray(value)) return value.flatMap((inner, index) => objectsIn(inner, [...path, String(index)]))
  if (typeof value !== 'object' || value === null) return []
  const inner = Object.entries(value).flatMap(([name, member]) => objectsIn(member, [...path, name]))
  return [[path, record(value)], ...inner]
}

const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']
const operations = Object.entries(record(document.paths)).flatMap(([path, item]) =>
  Object.entries(record(item)).map(
    ([method, operation]) => [`${method} ${path}`, method, path, record(operation)] as const,
  ),
)

describe('the OpenAPI document', () => {
  test('is of version 3.1 and has the members that its root must have', () => {
    expect(document.openapi).toBe('3.1.0')
    expect(record(document.info)).toMatchObject({ title: 'Postern', version: expect.stringMatching(/^\d+\.\d+\.\d+/) })
    expect(document.servers).toEqual([{ url: origin }])
    const known = [
      'openapi',
      'info',
      'jsonSchemaDialect',
      'servers',
      'paths',
      'webhooks',
      'components',
      'security',
      'tags',
    ]
    for (const name of Object.keys(document)) expect(name.startsWith('x-') || known.includes(name)).toBe(true)
  })

  test('lists each route once and no other', () => {
    const listed = operations.map(
      ([, method, path]) => `${method.toUpperCase()} ${path.replaceAll(/\{([a-z_]+)\}/g, ':$1')}`,
    )
    expect(listed.toSorted()).toEqual(routeTable.map((route) => `${route.method} ${route.path}`).toSorted())
    const ids = operations.map(([, , , operation]) => operation.operationId)
    expect(ids.toSorted()).toEqual(routeTable.map((route) => route.id).toSorted())
  })

  test('is the same each time it is created', () => {
    expect(JSON.stringify(openApi(origin))).toBe(JSON.stringify(openApi(origin)))
  })

  test('has every component that it refers to, and no other', () => {
    const references = objectsIn(document).flatMap(([, { $ref }]) => (typeof $ref === 'string' ? [$ref] : []))
    for (const reference of references) {
      expect(reference).toMatch(/^#\/components\/(?:schemas|headers)\/[A-Za-z0-9._-]+$/)
      expect(at(document, ...reference.split('/').slice(1))).toBeDefined()
    }
    const held = ['schemas', 'headers'].flatMap((kind) =>
      Object.keys(record(at(document, 'components', kind))).map((name) => `#/components/${kind}/${name}`),
    )
    // Sent as JSON in a part of a form or in a header, or by the type of a connector: only a description can name it.
    const configs = Object.values(connectorConfigSchemas).map((schema) => String(schema.meta()?.id))
    const described = ['EvidenceDetails', ...configs].map((name) => `#/components/schemas/${name}`)
    expect([...new Set([...references, ...described])].toSorted()).toEqual(held.toSorted())
  })

  test('names its tags and its security schemes once and uses no others', () => {
    const tags = list(document.tags).map((tag) => record(tag).name)
    expect(new Set(tags).size).toBe(tags.length)
    const schemes = Object.keys(record(at(document, 'components', 'securitySchemes')))
    for (const [name, , , operation] of operations) {
      for (const tag of list(operation.tags)) expect([name, tags]).toEqual([name, expect.arrayContaining([tag])])
      for (const requirement of list(operation.security))
        expect([name, schemes]).toEqual([name, expect.arrayContaining(Object.keys(record(requirement)))])
    }
    for (const scheme of schemes) expect(at(document, 'components', 'securitySchemes', scheme, 'type')).toBe('http')
  })

  test('does not contain the internal API', () => {
    for (const path of Object.keys(record(document.paths))) expect(path).not.toContain('internal')
    expect(JSON.stringify(document).match(/postern-context|postern-assertion|signature-input/)).toBeNull()
  })

  test('has the value of a key only in the responses that create and rotate it', () => {
    const schemas = record(at(document, 'components', 'schemas'))
    const withKey = Object.keys(schemas).filter((name) => {
      const properties = record(at(schemas, name, 'properties'))
      return 'key' in properties && 'masked' in properties
    })
    expect(withKey).toEqual(['CreatedApiKey'])
    const answering = operations.filter(([, , , { responses }]) =>
      JSON.stringify(responses).includes('/CreatedApiKey"'),
    )
    expect(answering.map(([, , , { operationId }]) => operationId).toSorted()).toEqual(['keys.create', 'keys.rotate'])
  })
})

function mediaTypeOfErrors(path: string): string {
  return isScimTarget(path) ? scimMediaType : 'application/problem+json'
}

describe.each(operations)('%s', (_name, method, path, operation) => {
  test('is an operation on a path', () => {
    expect(methods).toContain(method)
    expect(path).toMatch(/^\//)
    expect(typeof operation.summary).toBe('string')
  })

  test('has each parameter once, and the ones of its path are required', () => {
    const parameters = list(operation.parameters).map(record)
    expect(new Set(parameters.map(({ name, in: place }) => `${String(place)} ${String(name)}`)).size).toBe(
      parameters.length,
    )
    for (const parameter of parameters) {
      expect(['path', 'query', 'header', 'cookie']).toContain(parameter.in)
      expect(Object.keys(record(parameter.schema))).not.toHaveLength(0)
    }
    const required = parameters.filter(({ in: place, required: must }) => place === 'path' && must === true)
    const inPath = [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name)
    expect(required.map(({ name }) => name)).toEqual(inPath)
    expect(parameters.filter(({ in: place }) => place === 'path')).toHaveLength(inPath.length)
  })

  test('has a description and a valid example for each parameter', () => {
    const route = routeTable.find(({ id }) => id === operation.operationId)
    if (route?.dialect === 'scim') return
    for (const { name, in: place, description, example } of list(operation.parameters).map(record)) {
      expect([name, typeof description]).toEqual([name, 'string'])
      const shape = place === 'path' ? route?.params?.shape : place === 'query' ? route?.query?.shape : undefined
      const schema = shape?.[String(name)]
      if (schema === undefined) continue
      expect([name, z.object({ value: schema }).safeParse({ value: String(example) }).success]).toEqual([name, true])
    }
  })

  test('has responses with a status and a description, one of them a success', () => {
    const responses = Object.entries(record(operation.responses))
    expect(responses.some(([status]) => /^2\d\d$/.test(status))).toBe(true)
    for (const [status, response] of responses) {
      expect(status).toMatch(/^[2-5]\d\d$/)
      expect(typeof record(response).description).toBe('string')
    }
  })

  test('returns problems as problem documents', () => {
    for (const [status, response] of Object.entries(record(operation.responses)))
      if (Number(status) >= 400)
        expect(record(response).content).toEqual({
          [mediaTypeOfErrors(path)]: {
            schema: { $ref: `#/components/schemas/${isScimTarget(path) ? 'ScimError' : 'Problem'}` },
            examples: expect.anything(),
          },
        })
    expect(record(operation.responses)).toBeDefined()
  })

  test('has a valid example of each of its problems', () => {
    const route = routeTable.find(({ id }) => id === operation.operationId)
    const shown = Object.entries(record(operation.responses)).flatMap(([status, response]) =>
      Object.entries(record(at(response, 'content', mediaTypeOfErrors(path), 'examples'))).map(([code, example]) => {
        const { value } = record(example)
        if (isScimTarget(path)) expect(scimErrorSchema.parse(value)).toMatchObject({ status })
        else expect(problemSchema.parse(value)).toMatchObject({ code, status: Number(status) })
        return code
      }),
    )
    expect(shown.toSorted()).toEqual([...(route === undefined ? [] : problemsOf(route))].toSorted())
    expect(Object.keys(problemTypes)).toEqual(expect.arrayContaining(shown))
  })

  test('has valid examples of its body and its responses', () => {
    const route = routeTable.find(({ id }) => id === operation.operationId)
    for (const [mediaType, content] of Object.entries(record(at(operation, 'requestBody', 'content')))) {
      const { example } = record(content)
      const lines = mediaType === linesMediaType ? String(example).trim().split('\n') : undefined
      const body = lines === undefined ? example : lines.map((line) => JSON.parse(line))
      if (route?.body !== undefined) expect(route.body.safeParse(body)).toMatchObject({ success: true })
    }
    for (const [status, { schema }] of Object.entries(route?.answers ?? {})) {
      if (schema === undefined) continue
      const [content] = Object.values(record(at(operation, 'responses', status, 'content'))).map(record)
      expect(content).toHaveProperty('example')
      expect(schema.safeParse(content?.example)).toMatchObject({ success: true })
    }
  })

  test('offers a list also as NDJSON and CSV, each with an example', () => {
    const route = routeTable.find(({ id }) => id === operation.operationId)
    const item = route === undefined ? undefined : itemSchemaOf(route)
    const content = record(at(operation, 'responses', '200', 'content'))
    const offered = Object.keys(content).filter((type) => type === 'text/csv' || type === 'application/x-ndjson')
    expect(offered).toEqual(item === undefined ? [] : ['application/x-ndjson', 'text/csv'])
    if (route === undefined || item === undefined) return
    const { example: lines, 'x-item-schema': described, schema: said } = record(content['application/x-ndjson'])
    expect(record(said)['description']).toContain('ignore blanks')
    expect(item.safeParse(JSON.parse(String(lines)))).toMatchObject({ success: true })
    expect(described).toBeDefined()
    const { example: csv, 'x-columns': columns } = record(content['text/csv'])
    expect(columns).toEqual(columnsOf(route))
    expect(list(columns).length).toBeGreaterThan(2)
    expect(String(csv).split('\r\n')).toEqual([columnsOf(route).join(','), expect.stringContaining(','), ''])
    expect(Object.keys(record(at(operation, 'responses', '200', 'headers')))).toContain('Vary')
  })

  test('names the headers that its conventions need', () => {
    const route = routeTable.find(({ id }) => id === operation.operationId)
    const sent = list(operation.parameters).flatMap((each) => (record(each).in === 'header' ? [record(each).name] : []))
    const back = (status: string) => Object.keys(record(at(operation, 'responses', status, 'headers')))
    expect(sent.includes('Idempotency-Key')).toBe(method === 'post' && route?.access.kind !== 'public')
    expect(sent.includes('If-None-Match')).toBe(route?.answers[304] !== undefined)
    expect(sent.includes('If-Match')).toBe(route?.problems.includes('precondition_failed') ?? false)
    for (const status of Object.keys(record(operation.responses))) expect(back(status)).toContain('X-Request-Id')
    if (route?.query?.shape.cursor !== undefined) expect(back('200')).toEqual(expect.arrayContaining(['Link']))
    if (route?.access.kind !== 'public') {
      expect(back('401')).toContain('WWW-Authenticate')
      expect(back('429')).toEqual(expect.arrayContaining(['Retry-After', 'RateLimit']))
    }
  })

  test('states its access', () => {
    const route = routeTable.find(({ id }) => id === operation.operationId)
    const isOpen = route?.access.kind === 'public'
    expect(list(operation.security).length === 0).toBe(isOpen)
    expect(operation.security).toBeDefined()
    if (!isOpen) expect(record(operation.responses)).toHaveProperty('401')
    if (route?.access.kind === 'person') expect(JSON.stringify(operation.security)).not.toContain('apiKey')
  })

  test('has a body only if the route has one', () => {
    const route = routeTable.find(({ id }) => id === operation.operationId)
    expect(operation.requestBody !== undefined).toBe((route?.maxBodyBytes ?? 0) > 0)
    if (operation.requestBody !== undefined)
      expect(Object.keys(record(at(operation, 'requestBody', 'content')))).not.toHaveLength(0)
  })
})

describe('a schema of the document', () => {
  const types = ['null', 'boolean', 'object', 'array', 'number', 'string', 'integer']
  const roots = [
    ...Object.values(record(at(document, 'components', 'schemas'))),
    ...objectsIn(document.paths).flatMap(([path, { schema }]) =>
      path.at(-1) === 'schema' || schema === undefined ? [] : [schema],
    ),
  ]
  const schemas = roots
    .flatMap((root) => objectsIn(root))
    .filter(([path]) => !['properties', 'examples', 'default', 'example'].includes(path.at(-1) ?? ''))

  test('has types that JSON Schema knows', () => {
    const given = schemas.flatMap(([, { type }]) =>
      type === undefined ? [] : list(Array.isArray(type) ? type : [type]),
    )
    expect(given.length).toBeGreaterThan(100)
    for (const type of given) expect(types).toContain(type)
  })

  test('has patterns that are regular expressions', () => {
    const patterns = schemas.flatMap(([, { pattern }]) => (typeof pattern === 'string' ? [pattern] : []))
    expect(patterns.length).toBeGreaterThan(10)
    for (const pattern of patterns) expect(() => new RegExp(pattern, 'u')).not.toThrow()
  })

  test('requires only properties that it has', () => {
    for (const [, schema] of schemas)
      if (Array.isArray(schema.required))
        expect(Object.keys(record(schema.properties))).toEqual(expect.arrayContaining(schema.required))
    expect(schemas.some(([, { required }]) => Array.isArray(required))).toBe(true)
  })

  test('has no id or dialect of its own, and no empty enumeration', () => {
    for (const [, schema] of schemas) {
      expect(schema).not.toHaveProperty('$schema')
      expect(schema).not.toHaveProperty('$defs')
      if ('enum' in schema) expect(list(schema.enum).length).toBeGreaterThan(0)
    }
  })

  test('has a limit that is an integer from 1 to 1000, by default 100', () => {
    const limits = objectsIn(document.paths).filter(([, { name }]) => name === 'limit')
    expect(limits.length).toBeGreaterThan(2)
    for (const [, parameter] of limits)
      expect(parameter).toMatchObject({
        in: 'query',
        required: false,
        schema: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
      })
  })
})
