/** A field of a dataset, as the form of a connector offers it. */
export interface Field {
  /** With a member after a dot, as `owner.email`. */
  readonly name: string
  readonly isRequired: boolean
  /** All that may stand there, where that is a short list. */
  readonly values?: readonly string[]
}

/** As much of a schema as is looked at. */
interface Schema {
  safeParse(value: unknown): { readonly success: boolean }
}

/** The fields of a row, members of those that are objects one by one. */
export function describeFields(schema: { readonly shape: Readonly<Record<string, Schema>> }): readonly Field[] {
  return Object.entries(schema.shape).flatMap(([name, field]): readonly Field[] => {
    const isRequired = !field.safeParse(undefined).success
    const inner = innerOf(field)
    if (isObject(inner)) {
      const members = Object.keys(inner.shape).map((member) => ({ name: `${name}.${member}`, isRequired: false }))
      // A synced person is told by what the source knows of them.
      return members.filter((member) => !member.name.endsWith('.person_id'))
    }
    return [{ name, isRequired, ...(hasOptions(inner) ? { values: inner.options } : {}) }]
  })
}

/** What is below optional and default. */
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
