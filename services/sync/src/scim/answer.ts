/** What of a resource the caller wants to see. */
export interface Projection {
  readonly attributes?: string | undefined
  readonly excludedAttributes?: string | undefined
}

/** What is in every answer, whatever was asked for (RFC 7643 §7, `returned: always`). */
const always: ReadonlySet<string> = new Set(['schemas', 'id'])

/** The resource with the attributes that are wanted (RFC 7644 §3.9): by their first names, a part brings its whole. */
export function project<Resource extends object>(resource: Resource, query: Projection): Resource {
  const wanted = query.attributes === undefined ? undefined : namesIn(query.attributes)
  const unwanted = namesIn(query.excludedAttributes ?? '')
  if (wanted === undefined && unwanted.size === 0) return resource
  const kept: Resource = { ...resource }
  for (const name of Object.keys(resource)) {
    const lower = name.toLowerCase()
    const isWanted = wanted === undefined ? !unwanted.has(lower) : wanted.has(lower)
    if (!always.has(name) && !isWanted) Reflect.deleteProperty(kept, name)
  }
  return kept
}

/** Whether the attribute is left out of the answers: it need not be read then. */
export function isLeftOut(name: string, { attributes, excludedAttributes }: Projection): boolean {
  if (attributes !== undefined) return !namesIn(attributes).has(name.toLowerCase())
  return namesIn(excludedAttributes ?? '').has(name.toLowerCase())
}

const coreUrn = /^urn:ietf:params:scim:schemas:core:2\.0:(?:user|group):/

function namesIn(list: string): ReadonlySet<string> {
  return new Set(
    list.split(',').flatMap((each) => {
      const name = each.trim().toLowerCase().replace(coreUrn, '')
      if (name === '') return []
      // An attribute of an extension brings the extension.
      const extension = /^(urn:.*:user)(?::[^:]*)?$/.exec(name)?.[1]
      return [extension ?? name.split('.')[0] ?? name]
    }),
  )
}

/** `startIndex` and `count` as RFC 7644 §3.4.2.4 reads them. */
export function pageOf(
  { startIndex, count }: { readonly startIndex?: string | undefined; readonly count?: string | undefined },
  most: number,
): { readonly startIndex: number; readonly offset: number; readonly limit: number } {
  const first = Math.max(1, Number(startIndex ?? '1'))
  const limit = Math.min(most, Math.max(0, Number(count ?? '100')))
  return { startIndex: first, offset: first - 1, limit }
}

export function listOf<Resource>(
  total: number,
  startIndex: number,
  resources: readonly Resource[],
): {
  schemas: 'urn:ietf:params:scim:api:messages:2.0:ListResponse'[]
  totalResults: number
  startIndex: number
  itemsPerPage: number
  Resources: Resource[]
} {
  return {
    schemas: ['urn:ietf:params:scim:api:messages:2.0:ListResponse'],
    totalResults: total,
    startIndex,
    itemsPerPage: resources.length,
    Resources: [...resources],
  }
}
