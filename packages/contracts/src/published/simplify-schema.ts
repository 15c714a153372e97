import { type Json, asJson, asList, mapMembers, omit, schemaNameOf, schemaRef } from './json.ts'
import { portablePattern } from './pattern.ts'

export interface Simplifying {
  /** Returns the published name of a component schema. */
  readonly nameOf: (name: string) => string
  /** Whether unknown members are rejected, which is only said of requests: clients must accept new members of responses. */
  readonly isStrict: boolean
}

/** Formats that readers of JSON Schema check themselves. Their patterns would repeat them. */
const checkedFormats: ReadonlySet<unknown> = new Set(['uuid', 'date', 'date-time', 'ipv4', 'ipv6'])
/** Values, which can have members that are named like keywords. */
const values: ReadonlySet<string> = new Set(['example', 'examples', 'enum', 'const', 'default'])

/**
 * Returns a schema in the form that client generators understand. It accepts at least what the given one accepts: the
 * service checks the rest.
 */
export function simplifySchema(schema: unknown, how: Simplifying): unknown {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return schema
  const name = schemaNameOf(schema)
  if (name !== undefined) return { ...withTextualDefault(asJson(schema)), ...schemaRef(how.nameOf(name)) }
  const steps = [withoutTextUnion, withoutMixedTypes, withPlainConstant, withTextualDefault, withPortablePattern]
  const plain = steps.reduce((json, step) => step(json), asJson(schema))
  return withParts(how.isStrict ? plain : withoutStrictness(plain), how)
}

function withParts(schema: Json, how: Simplifying): Json {
  return mapMembers(schema, (part, keyword) => {
    if (values.has(keyword)) return part
    if (keyword === 'properties') return mapMembers(part, (property) => simplifySchema(property, how))
    if (Array.isArray(part)) return part.map((each) => simplifySchema(each, how))
    return simplifySchema(part, how)
  })
}

/** A choice between forms of a text is published as a text. Its description names the forms. */
function withoutTextUnion(schema: Json): Json {
  const choices = flatChoices(schema)
  const texts = choices.filter(({ type }) => type !== 'null')
  if (texts.length < 2 || texts.some(({ type }) => type !== 'string')) return schema
  const isNullable = texts.length < choices.length
  const examples = texts.flatMap((text) => asList(text['examples'])).slice(0, 1)
  return {
    ...omit(schema, 'anyOf', 'oneOf'),
    type: isNullable ? ['string', 'null'] : 'string',
    ...(examples.length === 0 || 'examples' in schema ? {} : { examples }),
  }
}

/** Returns the alternatives of a schema, those of its alternatives included. */
export function flatChoices(schema: Json): Json[] {
  return asList(schema['anyOf'] ?? schema['oneOf'])
    .map(asJson)
    .flatMap((choice) => (choice['anyOf'] === undefined ? [choice] : flatChoices(choice)))
}

/** Generators know one type of a value, besides null. */
function withoutMixedTypes(schema: Json): Json {
  const types = asList(schema['type']).filter((type) => type !== 'null')
  if (types.length < 2) return schema
  const description = [schema['description'], `One of: ${types.join(', ')}`].filter(Boolean).join('. ')
  return { ...omit(schema, 'type'), description }
}

function withPlainConstant(schema: Json): Json {
  const { const: constant, ...rest } = schema
  if (constant === undefined) return schema
  return typeof constant === 'boolean' ? { ...rest, type: 'boolean' } : { ...rest, enum: [constant] }
}

/** An object as default does not compile in Go. */
function withTextualDefault(schema: Json): Json {
  const { default: fallback, ...rest } = schema
  if (typeof fallback !== 'object' || fallback === null) return schema
  const description = [schema['description'], `Default: \`${JSON.stringify(fallback)}\``].filter(Boolean).join('. ')
  return { ...rest, description }
}

function withPortablePattern(schema: Json): Json {
  const { pattern: own, allOf, ...rest } = schema
  const isText = rest['type'] === 'string' && Array.isArray(allOf)
  const patterns = [own, ...(isText ? allOf.map((each) => asJson(each)['pattern']) : [])]
  const [pattern] = patterns.flatMap((each) => (typeof each === 'string' ? (portablePattern(each) ?? []) : []))
  const kept = isText || allOf === undefined ? rest : { ...rest, allOf }
  return pattern === undefined || checkedFormats.has(rest['format']) ? kept : { ...kept, pattern }
}

function withoutStrictness(schema: Json): Json {
  return schema['additionalProperties'] === false ? omit(schema, 'additionalProperties') : schema
}
