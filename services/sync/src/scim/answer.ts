import { type ScimSearch, enterpriseUrn } from '@postern/contracts'

export interface Projection {
  readonly attributes?: string | undefined
  readonly excludedAttributes?: string | undefined
}

/** Attributes in every response (RFC 7643, section 7, `returned: always`). */
const always: ReadonlySet<string> = new Set(['schemas', 'id'])

/**
 * Returns the requested attributes (RFC 7644, section 3.9): an attribute, a sub-attribute (`name.familyName`), an
 * extension, or an attribute of one (`urn:…:User:department`).
 */
export function project<Resource extends object>(resource: Resource, query: Projection): Resource {
  const wanted = query.attributes === undefined ? undefined : pathsIn(query.attributes)
  const unwanted = pathsIn(query.excludedAttributes ?? '')
  if (wanted === undefined && unwanted.length === 0) return resource
  const kept: Resource = { ...resource }
  for (const [name, value] of Object.entries(resource)) {
    if (always.has(name)) continue
    const shown = wanted === undefined ? without(value, name, unwanted) : selectMembers(value, name, wanted)
    if (shown === undefined) Reflect.deleteProperty(kept, name)
    else Reflect.set(kept, name, shown)
  }
  return kept
}

/** Returns whether the response omits the attribute, so that it need not be read. */
export function isLeftOut(name: string, { attributes, excludedAttributes }: Projection): boolean {
  const lower = name.toLowerCase()
  if (attributes !== undefined) return !pathsIn(attributes).some(([first]) => first === lower)
  return pathsIn(excludedAttributes ?? '').some(([first, ...inner]) => first === lower && inner.length === 0)
}

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

/** An empty rest means the whole value. */
function pathsBelow(name: string, paths: readonly Path[]): Path[] {
  const lower = name.toLowerCase()
  return paths.flatMap(([first, ...inner]) => (first === lower ? [inner] : []))
}

function selectMembers(value: unknown, name: string, paths: readonly Path[]): unknown {
  const inner = pathsBelow(name, paths)
  if (inner.length === 0 || inner.some((path) => path.length === 0)) return inner.length === 0 ? undefined : value
  return mapMembers(value, (member, part) => selectMembers(member, part, inner))
}

function without(value: unknown, name: string, paths: readonly Path[]): unknown {
  const inner = pathsBelow(name, paths)
  if (inner.some((path) => path.length === 0)) return undefined
  return inner.length === 0 ? value : mapMembers(value, (member, part) => without(member, part, inner))
}

function mapMembers(value: unknown, show: (member: unknown, name: string) => unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map((item) => mapMembers(item, show)).filter((item) => item !== undefined)
    return items.length === 0 ? undefined : items
  }
  if (typeof value !== 'object' || value === null) return undefined
  const members = Object.entries(value).flatMap(([name, member]) => {
    const shown = show(member, name)
    return shown === undefined ? [] : [[name, shown] as const]
  })
  return members.length === 0 ? undefined : Object.fromEntries(members)
}

/** RFC 7644, section 3.4.2.4. */
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

export interface ListQuery extends Projection {
  readonly filter?: string | undefined
  readonly startIndex?: string | undefined
  readonly count?: string | undefined
}

/** RFC 7644, section 3.4.3. */
export function queryOf({ attributes, excludedAttributes, filter, startIndex, count }: ScimSearch): ListQuery {
  return {
    attributes: joinNames(attributes),
    excludedAttributes: joinNames(excludedAttributes),
    filter: filter || undefined,
    startIndex: startIndex?.toString(),
    count: count?.toString(),
  }
}

function joinNames(names: readonly string[] | null | undefined): string | undefined {
  return names?.length ? names.join(',') : undefined
}
