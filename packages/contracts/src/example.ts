import { type Json, asJson } from './published/json.ts'

const formats: Readonly<Record<string, string>> = {
  uuid: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
  'date-time': '2026-11-21T09:30:00.000Z',
  date: '2026-11-21',
  email: 'ada.lund@harbourline.example',
  uri: 'https://harbourline.example/audit',
}

/**
 * Returns the schema's own example, otherwise the smallest that its keywords allow. A schema with a pattern needs its own.
 */
export function exampleOf(schema: unknown, resolve: (reference: string) => unknown): unknown {
  return build(schema, { resolve, within: [] }) ?? null
}

interface SchemaContext {
  readonly resolve: (reference: string) => unknown
  readonly within: readonly string[]
}

function build(schema: unknown, context: SchemaContext): unknown {
  const {
    examples,
    default: fallback,
    const: constant,
    enum: words,
    $ref,
    anyOf,
    oneOf,
    allOf,
    ...rest
  } = asJson(schema)
  if (Array.isArray(examples) && examples.length > 0) return examples[0]
  if (fallback !== undefined) return fallback
  if (constant !== undefined) return constant
  if (Array.isArray(words)) return words[0]
  if (typeof $ref === 'string') {
    if (context.within.includes($ref)) return undefined
    return build(context.resolve($ref), { ...context, within: [...context.within, $ref] })
  }
  const choice = anyOf ?? oneOf
  if (Array.isArray(choice)) return build(choice.find((each) => asJson(each)['type'] !== 'null') ?? choice[0], context)
  // Patterns of a text are not objects to merge.
  if (Array.isArray(allOf) && rest['type'] !== 'string')
    return Object.assign({}, ...allOf.map((each) => asJson(build(each, context))))
  const type = Array.isArray(rest['type']) ? rest['type'].find((each) => each !== 'null') : rest['type']
  switch (type) {
    case 'object':
      return objectOf(rest, context)
    case 'array':
      return [build(rest['items'] ?? {}, context)].filter((item) => item !== undefined)
    case 'string':
      return stringOf(rest)
    case 'integer':
    case 'number':
      return typeof rest['minimum'] === 'number' && rest['minimum'] > -1e9 ? rest['minimum'] : 1
    case 'boolean':
      return false
    case 'null':
      return null
    default:
      return {}
  }
}

function objectOf({ properties, required }: Json, context: SchemaContext): Json {
  const names = Array.isArray(required) ? required : []
  return Object.fromEntries(
    Object.entries(asJson(properties))
      .filter(([name]) => names.includes(name))
      .map(([name, property]) => [name, build(property, context)]),
  )
}

const sha256Pattern = '^[0-9a-f]{64}$'
const sha256Example = '5f8f04f6a3a892aaabbddb6cf273894493773960d4a325b105fee46eef4304f1'

function stringOf({ format, minLength, pattern }: Json): string {
  const known = typeof format === 'string' ? formats[format] : undefined
  if (pattern === sha256Pattern) return sha256Example
  return known ?? 'Text'.padEnd(typeof minLength === 'number' ? minLength : 0, '.')
}
