import { publishedOpenApi, swaggerOf } from '@postern/contracts'
import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, test } from 'vitest'
import { asObject } from '../../verification/documents/openapi.ts'

const published = publishedOpenApi('https://api.postern.example/audit')
const source = JSON.stringify(swaggerOf(published))
const swagger = asObject(JSON.parse(source))

const operationsIn = (document: Readonly<Record<string, unknown>>): string[] =>
  Object.entries(asObject(document['paths'])).flatMap(([path, item]) =>
    Object.keys(asObject(item)).map((method) => `${method} ${path}`),
  )

test('the OpenAPI 2.0 document is valid', async () => {
  const { valid, errors } = await new Validator().validate(JSON.parse(source))
  expect({ valid, errors }).toEqual({ valid: true })
})

test('an OpenAPI 2.0 document with a keyword of OpenAPI 3 is invalid (control)', async () => {
  const wrong = { ...swagger, definitions: { Wrong: { anyOf: [{ type: 'string' }, { type: 'null' }] } } }
  const { valid } = await new Validator().validate(JSON.parse(JSON.stringify(wrong)))
  expect(valid).toBe(false)
})

test('the OpenAPI 2.0 document has every operation and the address of the API', () => {
  expect(operationsIn(swagger)).toEqual(operationsIn(published))
  expect(swagger).toMatchObject({ host: 'api.postern.example', basePath: '/audit', schemes: ['https'] })
})

test('the OpenAPI 2.0 document stays within the limits of Power Platform: 1 MB and 512 schemas', () => {
  expect(source.length).toBeLessThan(1_000_000)
  expect(Object.keys(asObject(swagger['definitions'])).length).toBeLessThanOrEqual(512)
})

test('every reference of the OpenAPI 2.0 document leads to something', () => {
  const references = [...source.matchAll(/"\$ref":"#\/([a-z]+)\/([^"]+)"/g)]
  expect(references.length).toBeGreaterThan(100)
  for (const [reference, kind = '', name = ''] of references) {
    expect(asObject(swagger[kind]), reference).toHaveProperty([name])
  }
})
