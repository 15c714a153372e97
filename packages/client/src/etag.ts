const tags = new WeakMap<object, string>()

/** Returns the tag for `If-Match` and `If-None-Match`. Undefined for items of a list and foreign values. */
export function etagOf(resource: object): string | undefined {
  return tags.get(resource)
}

export function rememberEtag(value: unknown, etag: string | null): void {
  if (typeof value === 'object' && value !== null && etag !== null) tags.set(value, etag)
}

const queries = new WeakMap<object, string>()

/** Remembers a query such as `?expand=…` for a later refresh. */
export function rememberQuery(value: unknown, query: string): void {
  if (typeof value === 'object' && value !== null && query !== '') queries.set(value, query)
}

export function queryTextOf(value: object): string {
  return queries.get(value) ?? ''
}
