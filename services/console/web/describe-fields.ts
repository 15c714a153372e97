export interface Field {
  readonly name: string
  readonly isRequired: boolean
  readonly values?: readonly string[]
}

interface Schema {
  safeParse(value: unknown): { readonly success: boolean }
}

export function describeFields(schema: { readonly shape: Readonly<Record<string, Schema>> }): readonly Field[] {
  return Object.entries(schema.shape).flatMap(([name, field]): readonly Field[] => {
    const isRequired = !field.safeParse(undefined).success
    const inner = innerOf(field)
    if (isObject(inner)) {
      const members = Object.keys(inner.shape).map((member) => ({ name: `${name}.${member}`, isRequired: false }))
      // Synced people are identified by fields of the source.
      return members.filter((member) => !member.name.endsWith('.person_id'))
    }
    return [{ name, isRequired, ...(hasOptions(inner) ? { values: inner.options } : {}) }]
  })
}

function innerOf(schema: Schema): Schema {
  return 'unwrap' in schema && typeof schema.unwrap === 'function' && !('element' in schema)
    ? innerOf(schema.unwrap())
    : schema
}

function isObject(schema: Schema): schema is Schema & { readonly shape: Readonly<Record<string, unknown>> } {
  return 'shape' in schema && typeof schema.shape === 'object'
}

function hasOptions(schema: Schema): schema is Schema & { readonly options: readonly string[] } {
  return (
    'options' in schema && Array.isArray(schema.options) && schema.options.every((each) => typeof each === 'string')
  )
}
