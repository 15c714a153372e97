import { type Json, asJson, asList, omit } from './json.ts'
import { type SimplifyOptions, flatChoices, simplifySchema } from './simplify-schema.ts'

export type SharedParameters = Map<string, Json>

/** A list becomes an array, an address a text. Tools that fill in examples leave optional ones out (`x-disabled`). */
export function simplifyParameter(parameter: Json, how: SimplifyOptions): Json {
  const { example, required, ...rest } = withSimpleSchema(parameter, how)
  if (required === true) return { ...rest, required, ...(example === undefined ? {} : { example }) }
  return example === undefined ? rest : { ...rest, examples: { sample: { value: example, 'x-disabled': true } } }
}

function withSimpleSchema(parameter: Json, how: SimplifyOptions): Json {
  const schema = asJson(parameter['schema'])
  const choices = flatChoices(schema)
  const list = choices.find(({ type }) => type === 'array')
  if (list === undefined) return { ...parameter, schema: simplifySchema(schema, how) }
  const [one = {}, second] = choices
  const takesCommas = second !== undefined && second['type'] !== 'array'
  const isOfWords =
    Array.isArray(one['enum']) &&
    choices.every(({ type, enum: words }) => type === 'array' || words === one['enum'] || words === undefined)
  const items = isOfWords ? { type: 'string', enum: one['enum'] } : { type: 'string' }
  const { example } = parameter
  return {
    ...parameter,
    style: 'form',
    explode: !takesCommas,
    ...(example === undefined ? {} : { example: [example] }),
    schema: {
      ...omit(schema, 'anyOf', 'oneOf', 'type', 'items', 'examples'),
      type: 'array',
      items,
      ...(typeof list['maxItems'] === 'number' ? { minItems: 1, maxItems: list['maxItems'] } : {}),
    },
  }
}

export function shareParameters(operations: readonly Json[], shared: SharedParameters): Json[] {
  const uses = new Map<string, number>()
  for (const parameter of operations.flatMap(parametersOf)) {
    const key = JSON.stringify(parameter)
    uses.set(key, (uses.get(key) ?? 0) + 1)
  }
  const names = new Map<string, string>()
  const share = (parameter: Json, operationId: string): Json => {
    const key = JSON.stringify(parameter)
    if (uses.get(key) === 1) return parameter
    // Generators make one kind of type for schemas and parameters.
    const short = `${pascalCase(String(parameter['name']))}Parameter`
    const name = names.get(key) ?? (shared.has(short) ? pascalCase(operationId) + short : short)
    names.set(key, name)
    shared.set(name, parameter)
    return { $ref: `#/components/parameters/${name}` }
  }
  return operations.map((operation) => ({
    ...operation,
    parameters: parametersOf(operation).map((each) => share(each, String(operation['operationId']))),
  }))
}

function parametersOf(operation: Json): Json[] {
  return asList(operation['parameters']).map(asJson)
}

export function pascalCase(name: string): string {
  const words = name.split(/[^A-Za-z0-9]/).filter((word) => word !== '')
  return words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}
