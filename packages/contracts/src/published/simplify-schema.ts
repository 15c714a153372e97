import { type Json, asJson, asList, mapMembers, omit, schemaNameOf, schemaRef } from './json.ts'
import { portablePattern } from './pattern.ts'

export interface SimplifyOptions {
  readonly nameOf: (name: string) => string
  /** Only requests reject unknown members: clients must accept new ones. */
  readonly isStrict: boolean
}

/** Patterns would repeat these formats. */
const checkedFormats: ReadonlySet<unknown> = new Set(['uuid', 'date', 'date-time', 'ipv4', 'ipv6'])
/** Their members can be named like keywords. */
const values: ReadonlySet<string> = new Set(['example', 'examples', 'enum', 'const', 'default'])

/** The result accepts at least what the given schema accepts: the service checks the rest. */
export function simplifySchema(schema: unknown, how: SimplifyOptions): unknown {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return schema
  const name = schemaNameOf(schema)
  if (name !== undefined) return { ...withTextualDefault(asJson(schema)), ...schemaRef(how.nameOf(name)) }
  const steps = [
    withoutTextUnion,
    withoutMixedTypes,
    withPlainConstant,
    withoutControlWords,
    withTextualDefault,
    withPortablePattern,
    asFile,
    withoutSafeBounds,
    withoutEmptyMinimum,
  ]
  const plain = steps.reduce((json, step) => step(json), asJson(schema))
  return withParts(how.isStrict ? plain : withoutStrictness(plain), how)
}

function withParts(schema: Json, how: SimplifyOptions): Json {
  return mapMembers(schema, (part, keyword) => {
    if (values.has(keyword)) return part
    if (keyword === 'properties') {
      const members = mapMembers(part, (property) => simplifySchema(property, how))
      return how.isStrict ? mapMembers(members, (member) => withTextualDefault(asJson(member), 'any')) : members
    }
    if (Array.isArray(part)) return part.map((each) => simplifySchema(each, how))
    return simplifySchema(part, how)
  })
}

/** Its description names the forms. */
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

/** Go makes a name of each word, which cannot contain a tab. */
function withoutControlWords(schema: Json): Json {
  const words = asList(schema['enum'])
  if (!words.some((word) => typeof word === 'string' && /\p{Cc}/u.test(word))) return schema
  const described = `One of ${words.map((word) => JSON.stringify(word)).join(', ')}`
  return { ...omit(schema, 'enum'), description: [schema['description'], described].filter(Boolean).join('. ') }
}

/** An object as default does not compile in Go, and a member of a body that has any is required in some TypeScript. */
function withTextualDefault(schema: Json, kind: 'object' | 'any' = 'object'): Json {
  const { default: fallback, ...rest } = schema
  if (fallback === undefined || fallback === null) return schema
  if (kind === 'object' && typeof fallback !== 'object') return schema
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

/** Generators know `format: binary`. Some write a list of files as JSON, so it is published as one file. */
function asFile(schema: Json): Json {
  const { items, minItems: _least, maxItems: most, ...rest } = schema
  if (asJson(items)['format'] === 'binary') {
    const description = [schema['description'], `There may be ${String(most)} of them.`].filter(Boolean).join('. ')
    return { ...rest, type: 'string', format: 'binary', description }
  }
  return schema['format'] === 'binary' ? omit(schema, 'contentEncoding') : schema
}

/** `int64` gives clients a type that holds the integer. */
function withoutSafeBounds(schema: Json): Json {
  const { minimum, maximum, ...rest } = schema
  if (maximum !== Number.MAX_SAFE_INTEGER) return schema
  return { ...rest, ...(minimum === Number.MIN_SAFE_INTEGER ? {} : { minimum }), format: 'int64' }
}

function withoutEmptyMinimum(schema: Json): Json {
  return schema['minLength'] === 0 ? omit(schema, 'minLength') : schema
}

function withoutStrictness(schema: Json): Json {
  return schema['additionalProperties'] === false ? omit(schema, 'additionalProperties') : schema
}
