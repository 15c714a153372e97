const tags = new WeakMap<object, string>()

/**
 * Returns the entity tag of a resource for `If-Match` and `If-None-Match`. Undefined for items of a list and for values
 * that this client did not return.
 */
export function etagOf(resource: object): string | undefined {
  return tags.get(resource)
}

/** Remembers the entity tag of a response as long as its value exists. */
export function rememberEtag(value: unknown, etag: string | null): void {
  if (typeof value === 'object' && value !== null && etag !== null) tags.set(value, etag)
}

const queries = new WeakMap<object, string>()

/** Remembers the query of a request, such as `?expand=…`, as long as the returned value exists. */
export function rememberQuery(value: unknown, query: string): void {
  if (typeof value === 'object' && value !== null && query !== '') queries.set(value, query)
}

/** Returns the query with which a value was requested, or an empty string. */
export function queryTextOf(value: object): string {
  return queries.get(value) ?? ''
}
