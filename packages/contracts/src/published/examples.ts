import { type Json, asJson, mapMembers, omit, schemaNameOf } from './json.ts'

/** By the name of the schema. */
export type SharedExamples = Map<string, Json>

/** Turns an example that the responses of several operations have into a component. */
export function shareExamples(operations: readonly Json[], shared: SharedExamples): Json[] {
  const counts = new Map<string, number>()
  for (const media of operations.flatMap(mediaOf)) {
    const key = keyOf(media)
    if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  const share = (media: unknown): unknown => {
    const { example } = asJson(media)
    const name = nameOf(asJson(media)['schema'])
    const key = keyOf(asJson(media))
    if (name === undefined || key === undefined || (counts.get(key) ?? 0) < 2) return media
    if (shared.has(name) && JSON.stringify(shared.get(name)) !== JSON.stringify({ value: example })) return media
    shared.set(name, { value: example })
    return { ...omit(asJson(media), 'example'), examples: { example: { $ref: `#/components/examples/${name}` } } }
  }
  return operations.map((operation) => ({
    ...operation,
    responses: mapMembers(operation['responses'], (response) => {
      const { content } = asJson(response)
      return content === undefined ? response : { ...asJson(response), content: mapMembers(content, share) }
    }),
  }))
}

/** Also of a list of one schema. */
function nameOf(schema: unknown): string | undefined {
  const item = schemaNameOf(asJson(schema)['items'])
  return schemaNameOf(schema) ?? (item === undefined ? undefined : `${item}List`)
}

function mediaOf(operation: Json): Json[] {
  return Object.values(asJson(operation['responses'])).flatMap((response) =>
    Object.values(asJson(asJson(response)['content'])).map(asJson),
  )
}

function keyOf({ schema, example }: Json): string | undefined {
  const name = nameOf(schema)
  return name === undefined || example === undefined ? undefined : `${name} ${JSON.stringify(example)}`
}
