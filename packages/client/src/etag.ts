const tags = new WeakMap<object, string>()

/**
 * The entity tag with which a resource was read or answered: what `If-Match` and `If-None-Match` want. Undefined for
 * what did not come from this client, or is an item of a list.
 */
export function etagOf(resource: object): string | undefined {
  return tags.get(resource)
}

/** Remembers the entity tag of an answer for as long as somebody holds its value. */
export function rememberEtag(value: unknown, etag: string | null): void {
  if (typeof value === 'object' && value !== null && etag !== null) tags.set(value, etag)
}

const queries = new WeakMap<object, string>()

/** Remembers the query that a value was asked for with, as `?expand=…`, for as long as somebody holds it. */
export function rememberQuery(value: unknown, query: string): void {
  if (typeof value === 'object' && value !== null && query !== '') queries.set(value, query)
}

/** The query that a value was asked for with; empty where there was none. */
export function queryTextOf(value: object): string {
  return queries.get(value) ?? ''
}
