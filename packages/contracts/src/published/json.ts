export type Json = Readonly<Record<string, unknown>>

/** No members for other values. */
export function asJson(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {}
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function omit(value: Json, ...names: readonly string[]): Json {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)))
}

export function mapMembers(value: unknown, change: (member: unknown, name: string) => unknown): Json {
  return Object.fromEntries(Object.entries(asJson(value)).map(([name, member]) => [name, change(member, name)]))
}

const prefix = '#/components/schemas/'

/** Undefined for other values. */
export function schemaNameOf(value: unknown): string | undefined {
  const { $ref } = asJson(value)
  return typeof $ref === 'string' && $ref.startsWith(prefix) ? $ref.slice(prefix.length) : undefined
}

export function schemaRef(name: string): Json {
  return { $ref: prefix + name }
}

/** Returns the referenced component, or the value itself. */
export function resolve(value: unknown, document: Json): unknown {
  const { $ref } = asJson(value)
  if (typeof $ref !== 'string') return value
  let found: unknown = document
  for (const name of $ref.replace('#/', '').split('/')) found = asJson(found)[name]
  return found
}
