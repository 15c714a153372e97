import fc from 'fast-check'
import { marker } from './pool.ts'

/** JSON Schema 2020-12. */
export type Schema = Readonly<Record<string, unknown>>

const collections: Readonly<Record<string, string>> = {
  entity_id: 'entities',
  entity_ids: 'entities',
  parent_id: 'entities',
  finding_id: 'findings',
  repeat_of_id: 'findings',
  recommendation_ids: 'recommendations',
  recommendation_id: 'recommendations',
  action_plan_id: 'action-plans',
  person_id: 'people',
  test_procedure_id: 'test-procedures',
  test_procedure: 'test-procedures',
  test_procedures: 'test-procedures',
  evidence_id: 'evidence',
}

const ownKeys = fc.constantFrom('k1', 'k1', 'k1', 'k2', 'k3', 'k4', 'Ключ 5', 'k/6', 'k:7')
const keyNames = /^(external_id|parent_external_id|node_key|parent_key|entities|subtree_of|root)$/
const versions = /^(from|to|as_of)$/
const emails = fc.constantFrom('ada.lund@x.example', 'ADA.LUND@x.example', 'bo@x.example', "o'neil+a@b.example")

const dates = fc.oneof(
  fc.integer({ min: -900, max: 900 }).map((days) => new Date(Date.UTC(2026, 10, 21) + days * 86_400_000)),
  fc.constantFrom('0001-01-01', '0000-02-29', '1582-10-15', '2024-02-29', '9999-12-31', '1969-12-31').map(String),
)
const days = dates.map((date) => (typeof date === 'string' ? date : date.toISOString().slice(0, 10)))
const times = fc
  .tuple(
    days,
    fc.constantFrom('T00:00:00', 'T23:59:59.999', 'T09:30:00.123456789', 'T12:00:00.5'),
    fc.constantFrom('Z', 'Z', 'Z', '+00:00', '-00:00', '+23:59', '-23:59'),
  )
  .map((parts) => parts.join(''))

const filters = [
  'userName eq "a"',
  'displayName sw "a" and not (id pr)',
  'emails[type eq "work"]',
  'members.value eq "x"',
  'meta.created gt "x"',
  'externalId',
  '((((',
  'userName eq "\\"; --"',
]

const anyText = fc.oneof(
  { weight: 6, arbitrary: fc.string({ minLength: 1, maxLength: 24 }) },
  { weight: 2, arbitrary: fc.string({ unit: 'grapheme', maxLength: 24 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('=1+1', "'; drop table findings.finding; --", '<script>', '%00', '\\', '${7*7}', 'a_%'),
  },
)

/** Generates values, most of them valid. Dependencies between members are left to chance. */
export function valuesOf(schema: Schema, name: string, root: Schema = schema): fc.Arbitrary<unknown> {
  const { $ref, anyOf, oneOf, enum: words, const: constant, type } = schema
  if (typeof $ref === 'string') return valuesOf(resolve($ref, root), name, root)
  const choices = anyOf ?? oneOf
  if (Array.isArray(choices)) return fc.oneof(...choices.map((choice) => valuesOf(asSchema(choice), name, root)))
  if (constant !== undefined) return fc.constant(constant)
  if (Array.isArray(words)) return fc.constantFrom(...words)
  if (Array.isArray(type)) return fc.oneof(...type.map((each) => valuesOf({ ...schema, type: each }, name, root)))
  if (versions.test(name) && type !== 'string') return fc.constantFrom('0', '1', '2', '1000')
  if (name === 'urn') return fc.constantFrom('User', 'Group', 'urn:ietf:params:scim:schemas:core:2.0:User', 'nothing')
  if (name === 'filter') return fc.constantFrom(...filters)
  if (name === 'guide') return fc.constantFrom('first-request', 'read-lists', 'nothing')
  if (name === 'slug') return fc.constantFrom('not-found', 'invalid-content', 'nothing')
  switch (type) {
    case 'object':
      return objects(schema, root)
    case 'array':
      return arrays(schema, name, root)
    case 'string':
      return strings(schema, name)
    case 'integer':
      return fc.oneof(
        fc.integer({ min: numberOr(schema['minimum'], -3), max: Math.min(numberOr(schema['maximum'], 100), 2 ** 31) }),
        fc.constantFrom(numberOr(schema['minimum'], 0), numberOr(schema['maximum'], 2 ** 53 - 1)),
      )
    case 'number':
      return fc.double({
        min: numberOr(schema['minimum'], -1e300),
        max: numberOr(schema['maximum'], 1e300),
        noNaN: true,
      })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    default:
      return fc.constantFrom<unknown>('text', 'a,b', 1, null)
  }
}

function objects(schema: Schema, root: Schema): fc.Arbitrary<unknown> {
  const properties = asSchema(schema['properties'] ?? {})
  const names = Object.keys(properties)
  const required = Array.isArray(schema['required']) ? schema['required'].map(String) : []
  const optional = names.filter((name) => !required.includes(name))
  const values = names.map((name) => valuesOf(asSchema(properties[name]), name, root))
  const known = fc
    .tuple(fc.tuple(...values), fc.subarray(optional, { maxLength: Math.min(optional.length, 4) }))
    .map(([all, chosen]) =>
      Object.fromEntries(
        names
          .map((name, at) => [name, all[at]] as const)
          .filter(([name]) => required.includes(name) || chosen.includes(name)),
      ),
    )
  const additional = schema['additionalProperties']
  if (typeof additional !== 'object' || additional === null) return known
  const keys = fc.constantFrom('a', 'cost centre', 'constructor', 'toString', '0', 'é')
  return fc.dictionary(keys, valuesOf(asSchema(additional), 'custom', root), { maxKeys: 4 })
}

function arrays(schema: Schema, name: string, root: Schema): fc.Arbitrary<unknown> {
  const minLength = numberOr(schema['minItems'], 0)
  const maxLength = Math.max(minLength, Math.min(numberOr(schema['maxItems'], 4), 4))
  return fc.array(valuesOf(asSchema(schema['items'] ?? {}), name, root), { minLength, maxLength })
}

function strings(schema: Schema, name: string): fc.Arbitrary<string> {
  const { format, pattern } = schema
  if (name === 'email' && format !== 'email') return emails
  if (keyNames.test(name) && pattern === undefined && format === undefined) return ownKeys
  switch (format) {
    case 'uuid':
      return ids(collections[name] ?? 'any')
    case 'date':
      return days
    case 'date-time':
      return times
    case 'email':
      return emails
    default:
  }
  if (typeof pattern === 'string') return patterned(pattern, collections[name] ?? 'any')
  return texts(schema)
}

function patterned(pattern: string, collection: string): fc.Arbitrary<string> {
  if (pattern.startsWith('^ref:')) return fc.nat(20).map((at) => `ref:${marker('ref', collection, at)}`)
  if (pattern.startsWith('^ext:')) return ownKeys.map((key) => `ext:${key}`)
  if (pattern.startsWith('^key:')) return ownKeys.map((key) => `key:${key}`)
  // Pushes must overlap.
  if (pattern === '^[a-z0-9][a-z0-9_-]{0,63}$') return fc.constantFrom('legal', 'h1', 'h2')
  const known = matching.get(pattern)
  if (known !== undefined) return known
  const made = createMatching(pattern)
  matching.set(pattern, made)
  return made
}

/** By pattern, because those with large classes of characters take long to create. */
const matching = new Map<string, fc.Arbitrary<string>>()

function createMatching(pattern: string): fc.Arbitrary<string> {
  try {
    return fc.stringMatching(new RegExp(pattern, 'u'), { maxLength: 60 })
  } catch {
    return anyText
  }
}

function filled(length: number): string {
  return 'ä'.repeat(Math.min(length, 20_001))
}

function texts({ minLength: least, maxLength: most }: Schema): fc.Arbitrary<string> {
  const min = numberOr(least, 0)
  const max = numberOr(most, 300)
  return fc.oneof(
    { weight: 20, arbitrary: anyText.map((text) => text.slice(0, max).padEnd(min, 'x')) },
    { weight: 1, arbitrary: fc.constantFrom(filled(min), filled(max)) },
  )
}

export function ids(collection: string): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 8, arbitrary: fc.nat(20).map((at) => marker('id', collection, at)) },
    { weight: 1, arbitrary: fc.nat(20).map((at) => marker('foreign', collection, at)) },
    { weight: 1, arbitrary: fc.uuid() },
  )
}

function resolve(reference: string, root: Schema): Schema {
  const name = decodeURIComponent(reference.slice('#/$defs/'.length))
  return asSchema(asSchema(root['$defs'] ?? {})[name] ?? {})
}

export function asSchema(value: unknown): Schema {
  return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {}
}

function numberOr(value: unknown, fallback: number): number {
  return typeof value === 'number' ? value : fallback
}
