import { type ScimSearch, enterpriseUrn } from '@postern/contracts'

/** What of a resource the caller wants to see. */
export interface Projection {
  readonly attributes?: string | undefined
  readonly excludedAttributes?: string | undefined
}

/** What is in every answer, whatever was asked for (RFC 7643 §7, `returned: always`). */
const always: ReadonlySet<string> = new Set(['schemas', 'id'])

/**
 * The resource with the attributes that are wanted (RFC 7644 §3.9). A name may be that of an attribute, of a sub-attribute (`name.familyName`),
 * of an extension, or of an attribute of one (`urn:…:User:department`).
 */
export function project<Resource extends object>(resource: Resource, query: Projection): Resource {
  const wanted = query.attributes === undefined ? undefined : pathsIn(query.attributes)
  const unwanted = pathsIn(query.excludedAttributes ?? '')
  if (wanted === undefined && unwanted.length === 0) return resource
  const kept: Resource = { ...resource }
  for (const [name, value] of Object.entries(resource)) {
    if (always.has(name)) continue
    const shown = wanted === undefined ? without(value, name, unwanted) : only(value, name, wanted)
    if (shown === undefined) Reflect.deleteProperty(kept, name)
    else Reflect.set(kept, name, shown)
  }
  return kept
}

/** Whether the attribute is left out of the answers: it need not be read then. */
export function isLeftOut(name: string, { attributes, excludedAttributes }: Projection): boolean {
  const lower = name.toLowerCase()
  if (attributes !== undefined) return !pathsIn(attributes).some(([first]) => first === lower)
  return pathsIn(excludedAttributes ?? '').some(([first, ...inner]) => first === lower && inner.length === 0)
}

/** The names on the way to an attribute, from the outside, in lower case. */
type Path = readonly string[]

const coreUrn = /^urn:ietf:params:scim:schemas:core:2\.0:(?:user|group):/
const extensionUrn = enterpriseUrn.toLowerCase()

function pathsIn(list: string): readonly Path[] {
  return list.split(',').flatMap((each) => {
    const name = each.trim().toLowerCase().replace(coreUrn, '')
    if (name === '') return []
    if (name === extensionUrn) return [[extensionUrn]]
    if (name.startsWith(`${extensionUrn}:`)) return [[extensionUrn, ...name.slice(extensionUrn.length + 1).split('.')]]
    return [name.split('.')]
  })
}

/** What paths lead to below a name; an empty path leads to all of it. */
function below(name: string, paths: readonly Path[]): Path[] {
  const lower = name.toLowerCase()
  return paths.flatMap(([first, ...inner]) => (first === lower ? [inner] : []))
}

function only(value: unknown, name: string, paths: readonly Path[]): unknown {
  const inner = below(name, paths)
  if (inner.length === 0 || inner.some((path) => path.length === 0)) return inner.length === 0 ? undefined : value
  return eachMember(value, (member, part) => only(member, part, inner))
}

function without(value: unknown, name: string, paths: readonly Path[]): unknown {
  const inner = below(name, paths)
  if (inner.some((path) => path.length === 0)) return undefined
  return inner.length === 0 ? value : eachMember(value, (member, part) => without(member, part, inner))
}

/** An object, or each object of a list, with what is shown of its members; undefined if that is nothing. */
function eachMember(value: unknown, show: (member: unknown, name: string) => unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map((item) => eachMember(item, show)).filter((item) => item !== undefined)
    return items.length === 0 ? undefined : items
  }
  if (typeof value !== 'object' || value === null) return undefined
  const members = Object.entries(value).flatMap(([name, member]) => {
    const shown = show(member, name)
    return shown === undefined ? [] : [[name, shown] as const]
  })
  return members.length === 0 ? undefined : Object.fromEntries(members)
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

/** What a list can be asked for. */
export interface ListQuery extends Projection {
  readonly filter?: string | undefined
  readonly startIndex?: string | undefined
  readonly count?: string | undefined
}

/** A search (RFC 7644 §3.4.3) as the query of a list. */
export function queryOf({ attributes, excludedAttributes, filter, startIndex, count }: ScimSearch): ListQuery {
  return {
    attributes: listed(attributes),
    excludedAttributes: listed(excludedAttributes),
    filter: filter || undefined,
    startIndex: startIndex?.toString(),
    count: count?.toString(),
  }
}

function listed(names: readonly string[] | null | undefined): string | undefined {
  return names?.length ? names.join(',') : undefined
}
