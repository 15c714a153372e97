import { type Route, openApi, routeTable } from '@postern/contracts'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { asJson, publishedOf } from '../support/published.ts'

// Examples for clients are checked with the published schemas (JSON Schema 2020-12), not with our own.
const document = asJson(JSON.parse(JSON.stringify(openApi('https://postern.example'))))

function operationOf({ method, path }: Route) {
  const item = asJson(asJson(document['paths'])[path.replaceAll(/:(\w+)/g, '{$1}')])
  return asJson(item[method.toLowerCase()])
}

const routes = routeTable.map((route) => [route.id, route] as const)
const answersOf = (route: Route) =>
  Object.entries(asJson(operationOf(route)['responses'])).flatMap(([status, answer]) =>
    Object.entries(asJson(asJson(answer)['content'])).map(
      ([mediaType, media]) => [Number(status), mediaType, asJson(media)] as const,
    ),
  )

describe('the OpenAPI document', () => {
  test('uses only keywords of JSON Schema', () => {
    const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false, strictTypes: false })
    formats.default(ajv)
    const components = asJson(asJson(document['components'])['schemas'])
    const names = Object.keys(components)
    expect(names.length).toBeGreaterThan(50)
    ajv.addVocabulary(['components'])
    const anyOf = names.map((name) => ({ $ref: `#/components/schemas/${name}` }))
    expect(() => ajv.compile({ components: { schemas: components }, anyOf })).not.toThrow()
  })

  test.each(routes)('has examples that match its schemas, for %s', (_id, route) => {
    const published = publishedOf(route)
    const parameters = z.array(z.unknown()).parse(operationOf(route)['parameters']).map(asJson)
    for (const { name, in: place, example } of parameters) {
      if (place === 'query' && example !== undefined)
        expect([name, published.faultOfParameter(String(name), String(example))]).toEqual([name, undefined])
    }
    const bodies = Object.entries(asJson(asJson(operationOf(route)['requestBody'])['content']))
    for (const [mediaType, content] of bodies) {
      const { example } = asJson(content)
      const isLines = mediaType === 'application/x-ndjson'
      const body = isLines ? JSON.parse(`[${String(example).trim().replaceAll('\n', ',')}]`) : example
      if (body !== undefined) expect(published.faultOfBody(body)).toBeUndefined()
    }
    for (const [status, mediaType, { example, examples }] of answersOf(route)) {
      const shown =
        example === undefined ? Object.values(asJson(examples)).map((each) => asJson(each)['value']) : [example]
      for (const body of shown) expect(published.faultOfAnswer(status, mediaType, body)).toBeUndefined()
      if (mediaType === 'application/x-ndjson')
        expect(published.faultOfItem(JSON.parse(String(example)))).toBeUndefined()
    }
  })

  test('requires no optional member in a body, even if a response with the same schema always has it', () => {
    const components = asJson(asJson(document['components'])['schemas'])
    const parts = routeTable.flatMap(({ id, body }) => {
      const { $defs = {} } = body === undefined ? {} : z.toJSONSchema(body, { io: 'input', unrepresentable: 'any' })
      return Object.entries($defs).map(([name, { required = [] }]) => ({ id, name, required }))
    })
    expect(parts.length).toBeGreaterThan(10)
    const published = parts.map((part) => ({ ...part, required: asJson(components[part.name])['required'] ?? [] }))
    expect(published).toEqual(parts)
  })

  test('accepts untrimmed text in request bodies', () => {
    const create = routeTable.find(({ id }) => id === 'findings.create')
    if (create?.body === undefined) throw new Error('findings are not there')
    const body = { title: 'A', condition: 'B', severity: 'high', owner: { name: '\r\nAda Lund ' } }
    expect(create.body.parse(body)).toMatchObject({ owner: { name: 'Ada Lund' } })
    expect(publishedOf(create).faultOfBody(body)).toBeUndefined()
  })

  test('rejects an invalid problem, response and body (control)', () => {
    const list = routeTable.find(({ id }) => id === 'findings.list')
    const create = routeTable.find(({ id }) => id === 'findings.create')
    if (list === undefined || create === undefined) throw new Error('findings are not there')
    expect(publishedOf(list).faultOfAnswer(400, 'application/problem+json', { code: 'bad_request' })).toBeDefined()
    expect(publishedOf(list).faultOfAnswer(200, 'application/json', [{ id: 'x' }])).toBeDefined()
    expect(publishedOf(list).faultOfAnswer(200, 'application/json', [{ status: 'lost' }], ['status'])).toBeDefined()
    expect(publishedOf(list).faultOfAnswer(200, 'application/json', [{ status: 'open' }], ['status'])).toBeUndefined()
    expect(publishedOf(list).faultOfAnswer(200, 'application/json', [{ title: 'a' }], ['status'])).toBeDefined()
    expect(publishedOf(create).faultOfBody({ title: 'a' })).toBeDefined()
  })
})

/** Parameters that are lists, with two of the words that they take, where they take words. */
const filters = routeTable.flatMap((route) =>
  Object.entries(route.query?.shape ?? {}).flatMap(([name, schema]) => {
    const read = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' })
    const [one, another = one] = z.array(z.string()).catch([]).parse(asJson(read.items)['enum'])
    const words = one === undefined || another === undefined ? [] : [one, another, `${one},${another}`, `${one},x`]
    return read.type === 'array' && schema instanceof z.ZodType
      ? [[`${name} of ${route.id}`, route, name, { schema, words }] as const]
      : []
  }),
)

const id = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'
const values = ['', 'nothing', ',', id, `${id},${id}`, `${id},x`, 'ref:F-2026-0042', 'ext:a', `ext:a,${id}`, 'ext:']
const addresses = ['a@x.io', 'a@x.io,b@x.io', 'a@x.io,x', ',a@x.io,']
const references = ['F-2026-0042', 'F-2026-0042,F-2026-0043', 'F-1,,F-2', 'F-1,x']

describe('a filter of several values', () => {
  test('exists in many lists', () => {
    expect(filters.length).toBeGreaterThan(40)
  })

  test.each(filters)('is published with exactly the accepted values: %s', (_title, route, name, { schema, words }) => {
    const published = publishedOf(route)
    const single = [...values, ...references, ...addresses, ...words]
    const given = [...single, ...single.map((value) => [value, value]), ...single.map((value) => [value, id, ...words])]
    const disagreeing = given.filter((each) => {
      const isPublished = published.faultOfParameter(name, each) === undefined
      return isPublished !== schema.safeParse(each).success
    })
    // More values than there are words, one of them twice: the document does not count words within words.
    expect(disagreeing.filter((each) => !Array.isArray(each))).toEqual([])
    expect(disagreeing.filter((each) => schema.safeParse(each).success)).toEqual([])
    expect(given.some((each) => schema.safeParse(each).success)).toBe(true)
  })
})
