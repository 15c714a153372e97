import { isDeepStrictEqual } from 'node:util'
import { type ScimPatch, type ScimType, enterpriseUrn, userUrn } from '@postern/contracts'
import { problem } from '@postern/service-kit'
import { type Filter, parse, stringify } from 'scim2-parse-filter'
import { ScimError, type ScimPatchOperation, type ScimResource, scimPatch } from 'scim-patch'
import { type Attribute, commonAttributes, enterpriseSchema, userSchema } from './attributes.ts'
import { type UserContent, isRecord } from './content.ts'

/** Attributes of RFC 7643 that are not kept: to change them changes nothing. */
const notKept: ReadonlySet<string> = new Set([
  'id',
  'meta',
  'schemas',
  'password',
  'groups',
  'roles',
  'entitlements',
  'photos',
  'ims',
  'x509certificates',
])

/** Where an operation points, in the names of our schemas. */
interface Place {
  /** As the library reads it. */
  readonly path: string
  readonly root: string
  readonly isExtension: boolean
  readonly attribute: Attribute
  readonly hasFilter: boolean
  readonly part: Attribute | undefined
}

/**
 * The content of a user after the operations (RFC 7644 §3.5.2), which are done in order, all or none. Every path is first
 * looked up in our schemas and written anew: the library would follow any, also into the prototype of all objects.
 */
export function patchUser(content: UserContent, { Operations }: Pick<ScimPatch, 'Operations'>): unknown {
  // The library has dates in `meta`, which it does not look at.
  let resource: ScimResource & UserContent = { ...structuredClone(content), schemas: [], meta: noMeta }
  for (const operation of Operations) {
    for (const each of resolve(operation, resource)) {
      try {
        const before = resource
        resource = scimPatch(resource, [each], { mutateDocument: false, treatMissingAsAdd: true })
        resource = withOnePrimary(before, resource)
      } catch (cause) {
        if (!(cause instanceof ScimError)) throw cause
        throw refused(cause.scimCode === 'noTarget' ? 'noTarget' : 'invalidPath', 'the operation cannot be done', cause)
      }
    }
  }
  const { schemas: _schemas, meta: _meta, ...changed } = resource
  return changed
}

const noMeta = { created: new Date(0), lastModified: new Date(0) }

interface Operation {
  readonly op: string
  readonly path?: string | undefined
  readonly value?: unknown
}

function resolve(operation: Operation, resource: UserContent): ScimPatchOperation[] {
  const op = operation.op.toLowerCase()
  const { path, value } = operation
  if (op === 'remove') {
    if (path === undefined) throw refused('noTarget', 'a removal needs a path')
    const place = placeOf(path)
    // What is not there is gone already.
    if (place === undefined || !isPresent(place, resource)) return []
    return [{ op: 'remove', path: place.path }]
  }
  if (path !== undefined && path.toLowerCase() !== enterpriseUrn.toLowerCase()) {
    const place = placeOf(path)
    return place === undefined ? [] : [assign(op, place, value)]
  }
  if (!isRecord(value)) throw refused('invalidValue', 'without a path the value must be an object')
  return Object.entries(value).flatMap(([name, inner]) => {
    const isExtension = name.toLowerCase() === enterpriseUrn.toLowerCase()
    if (isExtension && isRecord(inner)) return resolve({ op, path: enterpriseUrn, value: inner }, resource)
    const at = path === undefined ? placeOf(name) : placeOf(`${enterpriseUrn}:${name}`)
    return at === undefined ? [] : [assign(op, at, inner)]
  })
}

const withPrimary = ['emails', 'phoneNumbers', 'addresses'] as const

/** Where an entry has become the primary one, the others are that no longer (RFC 7644 §3.5.2). */
function withOnePrimary<T extends UserContent>(before: UserContent, after: T): T {
  const changed = withPrimary.flatMap((name) => {
    const [earlier, entries] = [entriesOf(before, name), entriesOf(after, name)]
    const primary = entries.filter(isPrimary)
    if (primary.length < 2) return []
    const stays = primary.findLast((entry) => !earlier.some((one) => isDeepStrictEqual(one, entry))) ?? primary[0]
    return [
      [name, entries.map((entry) => (isPrimary(entry) && entry !== stays ? { ...entry, primary: false } : entry))],
    ]
  })
  return { ...after, ...Object.fromEntries(changed) }
}

function entriesOf(content: UserContent, name: string): readonly Readonly<Record<string, unknown>>[] {
  const entries = content[name]
  return Array.isArray(entries) ? entries.filter(isRecord) : []
}

function isPrimary({ primary }: Readonly<Record<string, unknown>>): boolean {
  return String(primary).toLowerCase() === 'true'
}

/** Null takes away, as it does in the body of a user. A manager may be the id alone. */
function assign(op: string, place: Place, value: unknown): ScimPatchOperation {
  if (place.attribute.name === 'active' && value === '') throw refused('invalidValue', 'active is true or false')
  if (value === null || value === undefined || value === '') return { op: 'remove', path: place.path }
  if (place.attribute.name === 'manager' && place.part === undefined && !isRecord(value)) {
    return { op: 'replace', path: `${place.path}.value`, value: String(value) }
  }
  return { op: op === 'add' ? 'add' : 'replace', path: place.path, value }
}

function isPresent({ root, isExtension, attribute }: Place, resource: UserContent): boolean {
  if (!isExtension) return resource[root] !== undefined
  const extension = resource[enterpriseUrn]
  return isRecord(extension) && extension[attribute.name] !== undefined
}

/** Undefined where the attribute is one that is not kept. Throws `invalidPath` where there is no such attribute. */
function placeOf(path: string): Place | undefined {
  const bracket = path.indexOf('[')
  const close = path.lastIndexOf(']')
  if (bracket !== -1 && close < bracket) throw noSuch(path)
  const head = bracket === -1 ? path : path.slice(0, bracket)
  const colon = head.lastIndexOf(':')
  const urn = head.slice(0, Math.max(0, colon)).toLowerCase()
  const isExtension = urn === enterpriseUrn.toLowerCase()
  if (urn !== '' && !isExtension && urn !== userUrn.toLowerCase()) throw noSuch(path)
  const [name = '', ...inner] = head.slice(colon + 1).split('.')
  const after =
    bracket === -1
      ? inner
      : [
          ...inner,
          ...path
            .slice(close + 1)
            .split('.')
            .slice(1),
        ]
  if (!isExtension && notKept.has(name.toLowerCase())) return undefined
  const known = isExtension ? enterpriseSchema.attributes : [...userSchema.attributes, ...commonAttributes]
  const attribute = find(known, name)
  const [partName, ...beyond] = after
  const part = partName === undefined ? undefined : find(attribute?.parts ?? [], partName)
  if (attribute === undefined || beyond.length > 0 || (partName !== undefined && part === undefined)) throw noSuch(path)
  const filter = bracket === -1 ? '' : `[${filterOf(path.slice(bracket + 1, close), attribute)}]`
  const prefix = isExtension ? `${enterpriseUrn}:` : ''
  return {
    path: `${prefix}${attribute.name}${filter}${part === undefined ? '' : `.${part.name}`}`,
    root: attribute.name,
    isExtension,
    attribute,
    hasFilter: filter !== '',
    part,
  }
}

function find(attributes: readonly Attribute[], name: string): Attribute | undefined {
  return attributes.find((each) => each.name.toLowerCase() === name.toLowerCase())
}

/** The filter in the names of our schema. */
function filterOf(text: string, attribute: Attribute): string {
  let filter: Filter
  try {
    filter = parse(text)
  } catch (cause) {
    throw refused('invalidFilter', 'the filter in the path cannot be read', cause)
  }
  return stringify(renamed(filter, attribute))
}

function renamed(filter: Filter, attribute: Attribute): Filter {
  switch (filter.op) {
    case 'and':
    case 'or':
      return { op: filter.op, filters: filter.filters.map((each) => renamed(each, attribute)) }
    case 'not':
      return { op: 'not', filter: renamed(filter.filter, attribute) }
    case '[]':
      throw refused('invalidFilter', 'a filter in a path has none in itself')
    default: {
      const part = find(attribute.multi === true ? (attribute.parts ?? []) : [], filter.attrPath)
      if (part === undefined) throw refused('invalidFilter', `${attribute.name} has no such part`)
      return { ...filter, attrPath: part.name }
    }
  }
}

function noSuch(path: string) {
  return refused('invalidPath', `there is no attribute ${path.slice(0, 80)}`)
}

function refused(scimType: ScimType, detail: string, cause?: unknown) {
  const errors = [{ pointer: '/Operations', code: scimType, detail: `cannot be done: ${detail}` }]
  return problem('bad_request', { detail: 'Nothing was changed.', errors, cause })
}
