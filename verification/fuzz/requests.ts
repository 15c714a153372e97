import { createHash } from 'node:crypto'
import { type Route, evidenceDetailsSchema, mediaTypesOf } from '@postern/contracts'
import fc from 'fast-check'
import { z } from 'zod'
import { hostileValues, nearly, spoilers } from './hostile.ts'
import { marker } from './pool.ts'
import { starters } from './starters.ts'
import { type Schema, asSchema, ids, valuesOf } from './values.ts'

export const ownEtag: string = marker('etag', 'own', 0)

export type Caller = 'fit' | 'reader' | 'writer' | 'nobody' | 'garbage'

export interface Draft {
  readonly caller: Caller
  readonly params: readonly string[]
  readonly query: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body | undefined
}

export interface Body {
  readonly contentType: string | undefined
  readonly content: string | Buffer
  /** Undefined if the request may be valid. */
  readonly spoiled: string | undefined
}

const callers: fc.Arbitrary<Caller> = fc.oneof(
  { weight: 30, arbitrary: fc.constant('fit' as const) },
  { weight: 1, arbitrary: fc.constantFrom('reader', 'writer', 'nobody', 'garbage') },
)

/** Generates requests, most of them nearly valid, because those reach the most code. */
export function requestsFor(route: Route): fc.Arbitrary<Draft> {
  return fc.record({
    caller: callers,
    params: fc.tuple(...Object.entries(route.params?.shape ?? {}).map(([name, schema]) => params(route, name, schema))),
    query: queries(route),
    headers: headers(route),
    body: bodies(route),
  })
}

function schemaOf(schema: unknown): Schema {
  if (!(schema instanceof z.ZodType)) return {}
  return asSchema(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }))
}

/** A filter with several values accepts any text; its items have their own schema. */
function querySchemaOf(schema: unknown): Schema {
  if (!(schema instanceof z.ZodType)) return {}
  const read = asSchema(z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' }))
  return read['type'] === 'array' && asSchema(read['items'] ?? {})['type'] === 'string' ? read : schemaOf(schema)
}

const oddSegments = [
  '0',
  'null',
  '..',
  '%2e%2e',
  'a%2fb',
  'a%00b',
  '%F0%9F%92%A9',
  '%ff%fe',
  'ext:%E2%80%AE',
  'ext:%C2%A0',
  'ext:k1%20',
  'ref:F-2026-0001',
  "'%20or%201=1",
  ';a=b',
  'x'.repeat(1100),
  '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001.json',
]

function params(route: Route, name: string, schema: unknown): fc.Arbitrary<string> {
  const words = route.path.split('/')
  const collection = words.slice(0, words.indexOf(`:${name}`)).at(-1) ?? 'any'
  const described = schemaOf(schema)
  const right = valuesOf(described, name)
  // Uploads under one path are read under another one.
  const likely = name === 'id' ? ids(collection === 'evidence-files' ? 'evidence' : collection) : right
  return fc.oneof(
    { weight: 12, arbitrary: likely.map((value) => encode(String(value))) },
    { weight: 6, arbitrary: right.map((value) => encode(String(value))) },
    { weight: 1, arbitrary: fc.constantFrom(...oddSegments) },
    { weight: 1, arbitrary: hostileValues.map((value) => encode(asText(value))) },
  )
}

/** The colon of `ref:` stays. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll('%3A', ':').replaceAll("'", '%27') || '-'
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

const oddPairs = [
  'unknown=1',
  'limit=0',
  'limit=1e3',
  'cursor=WyJ4IiwxXQ',
  'q=%00',
  'q=%ff',
  'sort=constructor',
  '=',
  '&',
]

function queries(route: Route): fc.Arbitrary<readonly string[]> {
  const parameters = Object.entries(route.query?.shape ?? {}).map(([name, schema]) => {
    const described = querySchemaOf(schema)
    const values = isPosition(name)
      ? fc.oneof(
          fc.nat(9).map((at) => marker('cursor', collectionOf(route), at)),
          fc.constantFrom('now', 'x'),
        )
      : valuesOf(described, name)
    return fc.oneof(
      { weight: 8, arbitrary: values.map((value) => pair(name, value)) },
      { weight: 1, arbitrary: hostileValues.map((value) => pair(name, value)) },
      { weight: 1, arbitrary: fc.tuple(values, values).map((two) => two.map((each) => pair(name, each)).join('&')) },
    )
  })
  const required = Object.entries(route.query?.shape ?? {}).map(
    ([name, schema]) =>
      // A raw file has its name in this parameter.
      name === 'file_name' || (schema instanceof z.ZodType && !schema.safeParse(undefined).success),
  )
  const chosen = fc
    .tuple(fc.tuple(...parameters), fc.subarray([...parameters.keys()], { maxLength: Math.min(parameters.length, 3) }))
    .map(([pairs, wanted]) => pairs.filter((_pair, at) => required[at] === true || wanted.includes(at)))
  return fc.oneof(
    { weight: 12, arbitrary: chosen },
    { weight: 1, arbitrary: fc.tuple(chosen, fc.constantFrom(...oddPairs)).map(([pairs, odd]) => [...pairs, odd]) },
  )
}

function isPosition(name: string): boolean {
  return name === 'cursor' || name === 'since'
}

function collectionOf(route: Route): string {
  return route.path.split('/').findLast((part) => /^[a-z]/.test(part)) ?? 'any'
}

function pair(name: string, value: unknown): string {
  const text = Array.isArray(value) ? value.map(asText).join(',') : asText(value)
  return `${name}=${encodeURIComponent(text.toWellFormed()).replaceAll('%2C', ',')}`
}

const visible = fc.string({ unit: fc.constantFrom(...' !"#$%&\'()*+,-./0aZ;:=<>?@[]^_{|}~ÿ'), maxLength: 40 })

function headerValues(name: string): fc.Arbitrary<string> {
  switch (name) {
    case 'If-Match':
    case 'If-None-Match':
      return fc.oneof(
        { weight: 4, arbitrary: fc.constant(ownEtag) },
        fc.nat(9).map((at) => marker('etag', 'any', at)),
        fc.constantFrom('*', '"1"', 'W/"1"', '"1", "2"', '1', '"'),
      )
    case 'Idempotency-Key':
      return fc.oneof(fc.uuid(), fc.constantFrom('again', 'a b', 'x'.repeat(256)))
    case 'Accept':
      return fc.constantFrom(
        '*/*',
        'application/json',
        'application/*;q=0.5',
        'application/xml',
        'text/html',
        ';;',
        'a',
      )
    case 'X-Request-Id':
      return fc.constantFrom('fuzzed-request-1', 'short', '<script>alert(1)</script>', 'x'.repeat(200))
    case 'Content-Digest':
      return fc.constantFrom(
        `sha-256=:${createHash('sha256').update('fuzz').digest('base64')}:`,
        'sha-256=:AAAA:',
        'md5=:AAAA:',
        'sha-256',
      )
    case 'Tus-Resumable':
      return fc.oneof({ weight: 20, arbitrary: fc.constant('1.0.0') }, { weight: 1, arbitrary: visible })
    case 'Upload-Length':
      return fc.oneof(
        { weight: 6, arbitrary: fc.constant('4') },
        fc.constantFrom('0', '-1', '1e9', '99999999999999', ''),
      )
    case 'Upload-Offset':
      return fc.oneof(
        { weight: 6, arbitrary: fc.constant('0') },
        fc.constantFrom('4', '-1', '1', '99999999999999', 'x'),
      )
    case 'Upload-Metadata':
      return uploadMetadata
    case 'Upload-Checksum':
      return fc.constantFrom(
        `sha256 ${createHash('sha256').update('fuzz').digest('base64')}`,
        'sha256 AAAA',
        'md5 AAAA',
        'sha1',
      )
    default:
      return visible
  }
}

const details = valuesOf(schemaOf(evidenceDetailsSchema), 'metadata')
const base64 = (text: string | Buffer): string => Buffer.from(text).toString('base64')

const uploadMetadata = fc.oneof(
  fc.constant(`filename ${base64('a.txt')},filetype ${base64('text/plain')}`),
  fc
    .tuple(
      fc.oneof({ weight: 6, arbitrary: fc.constantFrom('a.txt', 'ä b.csv') }, hostileValues.map(asText)),
      fc.oneof({ weight: 6, arbitrary: fc.constant('text/plain') }, hostileValues.map(asText)),
      fc.oneof(details, nearly(details)),
      fc.constantFrom('', '', '', ',,', ',filename YQ==', ',metadata e30=', ' '),
    )
    .map(
      ([name, type, metadata, odd]) =>
        `filename ${base64(name)},filetype ${base64(type)},metadata ${base64(JSON.stringify(metadata) ?? '')}${odd}`,
    ),
)

function headers(route: Route): fc.Arbitrary<Readonly<Record<string, string>>> {
  const own = Object.entries(route.requestHeaders ?? {}).map(([name, { required }]) => ({
    name,
    chance: required === true ? 20 : 1,
  }))
  const ifMatch = route.problems.includes('precondition_required') ? 12 : 1
  const others = [
    { name: 'If-Match', chance: route.problems.includes('precondition_failed') ? ifMatch : 0 },
    { name: 'If-None-Match', chance: route.answers[304] === undefined ? 0 : 1 },
    { name: 'Idempotency-Key', chance: route.method === 'POST' ? 1 : 0 },
    { name: 'Content-Digest', chance: route.problems.includes('digest_mismatch') ? 1 : 0 },
  ]
  const each = [...own, ...others]
    .filter(({ chance }) => chance > 0)
    .map(({ name, chance }) =>
      fc.oneof(
        { weight: chance, arbitrary: headerValues(name).map((value) => ({ [name]: value })) },
        { weight: chance > 1 ? 1 : 3, arbitrary: fc.constant({}) },
      ),
    )
  const odd = fc.oneof(
    { weight: 12, arbitrary: fc.constant({}) },
    {
      weight: 3,
      arbitrary: fc
        .constantFrom(
          'Accept',
          'X-Request-Id',
          'Accept-Language',
          'Content-Digest',
          'X-HTTP-Method-Override',
          'Postern-Context',
        )
        .chain((name) => headerValues(name).map((value) => ({ [name]: value }))),
    },
  )
  const forms = mediaTypesOf(route)
  const form = fc.oneof(
    { weight: Math.max(1, forms.length), arbitrary: fc.constant({}) },
    { weight: forms.length > 1 ? 2 : 0, arbitrary: fc.constantFrom('*/*', ...forms).map((Accept) => ({ Accept })) },
  )
  return fc.tuple(form, ...each, odd).map((parts) => Object.assign({}, ...parts))
}

function bodies(route: Route): fc.Arbitrary<Body | undefined> {
  if (route.body !== undefined) {
    const values = valuesOf(schemaOf(route.body), 'body')
    const right = starters[route.id]
    return jsonBodies(
      route,
      right === undefined ? values : fc.oneof(values, { weight: 3, arbitrary: fc.constantFrom(...right) }),
    )
  }
  if (route.form !== undefined) return forms
  if (route.bodyMediaTypes?.includes('*/*') === true)
    return fc.oneof(fc.constant({ contentType: 'text/plain', content: 'fuzz', spoiled: undefined }), files, forms)
  if (route.bodyMediaTypes !== undefined) {
    const [contentType] = route.bodyMediaTypes
    return fc.constantFrom('fuzz', 'fuzz', 'fuz', '', 'fuzzed').map((content) => ({
      contentType,
      content,
      spoiled: undefined,
    }))
  }
  return fc.oneof(
    { weight: 20, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.constant({ contentType: 'application/json', content: '{}', spoiled: undefined }) },
  )
}

function texts(values: fc.Arbitrary<unknown>): fc.Arbitrary<string> {
  return values.map((value) => JSON.stringify(value) ?? 'null')
}

function as(contentType: string): (content: string) => Body {
  return (content) => ({ contentType, content, spoiled: undefined })
}

function jsonBodies(route: Route, values: fc.Arbitrary<unknown>): fc.Arbitrary<Body> {
  const [usual = 'application/json'] = route.bodyMediaTypes ?? []
  return fc.oneof(
    { weight: 8, arbitrary: texts(values).map(as(usual)) },
    { weight: 6, arbitrary: texts(nearly(values)).map(as(usual)) },
    { weight: 1, arbitrary: texts(hostileValues).map(as(usual)) },
    {
      weight: 2,
      arbitrary: fc
        .tuple(texts(values), fc.constantFrom(...Object.keys(spoilers)))
        .map(([text, spoiled]) => ({ contentType: usual, content: spoilers[spoiled]?.(text) ?? text, spoiled })),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(
          texts(values),
          fc.constantFrom(undefined, '', 'text/plain', 'application/xml', 'application/json; charset=utf-16', 'json'),
        )
        .map(([content, contentType]) => ({ contentType, content, spoiled: undefined })),
    },
  )
}

const contents = fc.constantFrom<string | Buffer>(
  'fuzz',
  'a,b\r\n1,2\r\n',
  '',
  '%PDF-1.7\n',
  Buffer.from('MZ\u0000\u0001', 'latin1'),
  Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
  '<svg onload="x"/>',
)

const files = fc
  .tuple(contents, fc.constantFrom('text/plain', 'application/pdf', 'image/png', 'text/html', 'x', undefined))
  .map(([content, contentType]) => ({ contentType, content, spoiled: undefined }))

const fileNames = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom('a.txt', 'b.csv', 'ä.pdf') },
  {
    weight: 1,
    arbitrary: hostileValues.map((value) =>
      asText(value)
        .slice(0, 300)
        .replaceAll(/["\r\n]/g, '_'),
    ),
  },
)

/** Up to three files, some malformed (RFC 7578). */
const forms = fc
  .tuple(
    fc.oneof(details, nearly(details), fc.constant(undefined)),
    fc.array(fc.tuple(fileNames, contents), { maxLength: 3 }),
    fc.constantFrom('fine', 'fine', 'fine', 'fine', 'cut', 'boundary', 'twice'),
  )
  .map(([metadata, list, odd]) => {
    const boundary = 'fuzz-boundary'
    const part = (head: string, content: string | Buffer): Buffer =>
      Buffer.concat([Buffer.from(`--${boundary}\r\n${head}\r\n\r\n`), Buffer.from(content), Buffer.from('\r\n')])
    const described = part(
      'Content-Disposition: form-data; name="metadata"\r\nContent-Type: application/json',
      JSON.stringify(metadata) ?? 'null',
    )
    const all = Buffer.concat([
      ...(metadata === undefined ? [] : odd === 'twice' ? [described, described] : [described]),
      ...list.map(([name, content]) =>
        part(`Content-Disposition: form-data; name="file"; filename="${name}"\r\nContent-Type: text/plain`, content),
      ),
      Buffer.from(`--${boundary}--\r\n`),
    ])
    return {
      contentType: `multipart/form-data; boundary=${odd === 'boundary' ? 'another' : boundary}`,
      content: odd === 'cut' ? all.subarray(0, all.length - 12) : all,
      spoiled: undefined,
    }
  })
