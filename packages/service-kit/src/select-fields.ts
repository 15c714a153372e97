import { membersOf } from '@postern/contracts'

/** Returns undefined for all members. */
export function requestedFields(query: unknown): readonly string[] | undefined {
  const fields = namesIn(query, 'fields')
  return fields === undefined ? undefined : [...fields, ...requestedExpansions(query).flatMap(membersOf)]
}

export function requestedExpansions(query: unknown): readonly string[] {
  return namesIn(query, 'expand') ?? []
}

function namesIn(query: unknown, parameter: 'fields' | 'expand'): readonly string[] | undefined {
  if (typeof query !== 'object' || query === null) return undefined
  const value: unknown = Reflect.get(query, parameter)
  return Array.isArray(value) ? value.filter((name) => typeof name === 'string') : undefined
}

export function selectFields(body: unknown, fields: readonly string[] | undefined): unknown {
  if (fields === undefined) return body
  return Array.isArray(body) ? body.map((item) => selectFieldsOfItem(item, fields)) : selectFieldsOfItem(body, fields)
}

function selectFieldsOfItem(item: unknown, fields: readonly string[]): unknown {
  if (typeof item !== 'object' || item === null) return item
  return Object.fromEntries(Object.entries(item).filter(([name]) => fields.includes(name)))
}
