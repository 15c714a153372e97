import { type Json, asJson, asList, mapMembers, omit, resolve } from './json.ts'

/**
 * The published OpenAPI 3.1 document as OpenAPI 2.0, for tools such as Power Platform. Each schema accepts at least what
 * the given one accepts, because 2.0 knows fewer rules.
 */
export function swaggerOf(published: Json): Json {
  const components = asJson(published['components'])
  const { title, version, description } = asJson(published['info'])
  const [server] = asList(published['servers']).map(asJson)
  return {
    swagger: '2.0',
    info: { title, version, description },
    ...addressOf(String(server?.['url'] ?? '/')),
    tags: published['tags'],
    paths: mapMembers(published['paths'], (item) =>
      mapMembers(item, (operation) => operationOf(asJson(operation), published)),
    ),
    definitions: mapMembers(components['schemas'], schemaOf),
    parameters: mapMembers(components['parameters'], (each) => parameterOf(asJson(each))),
    responses: mapMembers(components['responses'], (each) => responseOf(asJson(each))),
    securityDefinitions: components['securitySchemes'],
  }
}

function addressOf(url: string): Json {
  if (!URL.canParse(url)) return { basePath: url.startsWith('/') ? url : '/' }
  const { host, pathname, protocol } = new URL(url)
  return { host, basePath: pathname, schemes: [protocol.slice(0, -1)] }
}

function operationOf(operation: Json, published: Json): Json {
  const { parameters, requestBody, responses, ...rest } = operation
  const consumes = Object.keys(asJson(asJson(requestBody)['content']))
  const answers = Object.values(asJson(responses)).map((each) => asJson(resolve(each, published)))
  const produces = answers.flatMap(({ content }) => Object.keys(asJson(content)))
  return {
    ...omit(rest, 'x-problem-codes'),
    ...(consumes.length === 0 ? {} : { consumes }),
    produces: [...new Set([...produces, 'application/problem+json'])],
    parameters: [...asList(parameters).map(asJson).map(parameterOf), ...bodyParametersOf(asJson(requestBody))],
    responses: mapMembers(responses, (each) => responseOf(asJson(each))),
  }
}

function parameterOf(parameter: Json): Json {
  const reference = referenceOf(parameter)
  if (reference !== undefined) return reference
  const { name, in: place, required, description, schema, explode } = parameter
  const plain = asJson(schemaOf(schema))
  return {
    name,
    in: place,
    required: required === true,
    ...(description === undefined ? {} : { description }),
    ...omit(plain, 'example', 'description', 'x-nullable'),
    ...(plain['type'] === 'array' ? { collectionFormat: explode === true ? 'multi' : 'csv' } : {}),
  }
}

/** A form has one parameter for each part; any other body is one parameter. */
function bodyParametersOf({ content, required, description }: Json): Json[] {
  const [first] = Object.entries(asJson(content))
  if (first === undefined) return []
  const [mediaType, media] = first
  const schema = asJson(asJson(media)['schema'])
  if (mediaType === 'multipart/form-data') return formParametersOf(schema)
  const described = description === undefined ? {} : { description }
  return [{ name: 'body', in: 'body', required: required === true, ...described, schema: schemaOf(schema) }]
}

function formParametersOf({ properties, required }: Json): Json[] {
  return Object.entries(asJson(properties)).map(([name, part]) => {
    const { format, description, type } = asJson(schemaOf(part))
    const isText = type === 'string' || type === undefined
    return {
      name,
      in: 'formData',
      required: asList(required).includes(name),
      description: type === undefined ? 'An object as JSON' : description,
      type: format === 'binary' ? 'file' : isText ? 'string' : type,
    }
  })
}

/** Without headers: 2.0 cannot share their descriptions. */
function responseOf(response: Json): Json {
  const reference = referenceOf(response)
  if (reference !== undefined) return reference
  const [media] = Object.values(asJson(response['content'])).map(asJson)
  const schema = asJson(media?.['schema'])
  const isFile = schema['format'] === 'binary'
  return {
    description: response['description'],
    ...(media === undefined ? {} : { schema: isFile ? { type: 'file' } : schemaOf(schema) }),
  }
}

const folders: Readonly<Record<string, string>> = {
  schemas: 'definitions',
  parameters: 'parameters',
  responses: 'responses',
}

/** Undefined for other values. In 2.0 nothing may stand beside a reference. */
function referenceOf({ $ref }: Json): Json | undefined {
  if (typeof $ref !== 'string') return undefined
  const [, , kind = '', name = ''] = $ref.split('/')
  return { $ref: `#/${folders[kind] ?? kind}/${name}` }
}

/** Of JSON Schema, 2.0 knows these and what `keywordsOf` translates. */
const knownKeywords: ReadonlySet<string> = new Set([
  'title',
  'description',
  'default',
  'multipleOf',
  'maximum',
  'minimum',
  'maxLength',
  'minLength',
  'pattern',
  'maxItems',
  'minItems',
  'uniqueItems',
  'maxProperties',
  'minProperties',
  'required',
  'enum',
  'format',
  'readOnly',
])

function schemaOf(value: unknown): unknown {
  const schema = asJson(value)
  const reference = referenceOf(schema)
  if (reference !== undefined) return reference
  const choices = asList(schema['anyOf'] ?? schema['oneOf']).map(asJson)
  const types = [schema['type'], ...choices.map(({ type }) => type)].flat()
  const isNullable = types.includes('null')
  const real = choices.filter(({ type }) => type !== 'null')
  const [only] = real
  const merged = real.length === 1 && only !== undefined ? withChoice(schema, only) : withCommonType(schema, real)
  const wrapped = referenceOf(merged)
  return {
    ...(wrapped === undefined ? keywordsOf(merged) : { ...keywordsOf(omit(merged, '$ref')), allOf: [wrapped] }),
    ...(isNullable ? { 'x-nullable': true } : {}),
  }
}

/** The schema with its only choice besides null. */
function withChoice(schema: Json, choice: Json): Json {
  return { ...choice, ...omit(schema, 'anyOf', 'oneOf') }
}

/** Of several choices, 2.0 can only state the type that they share. */
function withCommonType(schema: Json, choices: readonly Json[]): Json {
  const [first] = choices
  const type = first?.['type']
  const isShared = type !== undefined && choices.every((choice) => choice['type'] === type)
  return isShared ? { type, ...schema } : schema
}

function keywordsOf(schema: Json): Json {
  const { type, examples, exclusiveMinimum, properties, items, additionalProperties, allOf, ...rest } = schema
  const [single] = asList(Array.isArray(type) ? type : [type]).filter((each) => each !== 'null')
  const [example] = asList(examples)
  return {
    ...Object.fromEntries(Object.entries(rest).filter(([name]) => knownKeywords.has(name))),
    ...(single === undefined ? {} : { type: single }),
    ...(example === undefined ? {} : { example }),
    ...(exclusiveMinimum === undefined ? {} : { minimum: exclusiveMinimum, exclusiveMinimum: true }),
    ...(properties === undefined ? {} : { properties: mapMembers(properties, schemaOf) }),
    ...(single === 'array' ? { items: schemaOf(items) } : {}),
    ...(additionalProperties === undefined ? {} : { additionalProperties: additionalOf(additionalProperties) }),
    ...(allOf === undefined ? {} : { allOf: asList(allOf).map(schemaOf) }),
  }
}

function additionalOf(value: unknown): unknown {
  return typeof value === 'boolean' ? value : schemaOf(value)
}
