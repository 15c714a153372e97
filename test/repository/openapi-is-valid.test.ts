import { openApi, routeTable } from '@postern/contracts'
import { Validator } from '@seriousme/openapi-schema-validator'
import { describe, expect, test } from 'vitest'

const methods = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options'] as const

/** The document as a client reads it. */
function readDocument(): Record<string, unknown> {
  return JSON.parse(JSON.stringify(openApi('https://postern.example')))
}

/** Every operation of the document as `METHOD /path`, with its id. */
function operations(): Map<string, unknown> {
  const found = new Map<string, unknown>()
  for (const [path, item] of Object.entries(member(readDocument(), 'paths') ?? {})) {
    for (const method of methods) {
      const operation = member(item, method)
      if (operation !== undefined) found.set(`${method.toUpperCase()} ${path}`, member(operation, 'operationId'))
    }
  }
  return found
}

function member(value: unknown, name: string): object | undefined {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

describe('the OpenAPI document', () => {
  test('is valid against the JSON Schema of OpenAPI 3.1', async () => {
    const validator = new Validator()
    expect(await validator.validate(readDocument())).toMatchObject({ valid: true })
    expect(validator.version).toBe('3.1')
  })

  test('is invalid with an operation without responses (control)', async () => {
    const document = readDocument()
    const operation = member(member(member(document, 'paths'), '/api/v1/findings'), 'get')
    expect(operation).toBeDefined()
    Object.assign(operation ?? {}, { responses: 'none' })
    expect(await new Validator().validate(document)).toMatchObject({ valid: false })
  })

  test('contains every referenced object', () => {
    const document = readDocument()
    const held = new Set(
      ['schemas', 'headers'].flatMap((kind) =>
        Object.keys(member(member(document, 'components'), kind) ?? {}).map((name) => `#/components/${kind}/${name}`),
      ),
    )
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(
      ([, reference = '']) => reference,
    )
    expect(references.length).toBeGreaterThan(10)
    expect(references.filter((reference) => !held.has(reference))).toEqual([])
  })

  test('contains every route and no others', () => {
    const expected = routeTable.map(({ id, method, path }) => [`${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`, id])
    expect(Object.fromEntries(operations())).toEqual(Object.fromEntries(expected))
    expect(operations().size).toBe(routeTable.length)
  })

  test('describes every path parameter', () => {
    const paths = Object.entries(member(readDocument(), 'paths') ?? {})
    for (const [path, item] of paths) {
      const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      for (const method of methods) {
        const operation = member(item, method)
        if (operation === undefined) continue
        const parameters = Object.values(member(operation, 'parameters') ?? {})
        const declared = parameters.filter((each) => Reflect.get(Object(each), 'in') === 'path')
        expect(
          declared.map((each) => Reflect.get(Object(each), 'name')),
          `${method} ${path}`,
        ).toEqual(named)
      }
    }
  })
})
