import { isDeepStrictEqual } from 'node:util'
import { type ScimPatch, type ScimType, enterpriseUrn, scimValues, userUrn } from '@postern/contracts'
import { problem } from '@postern/service-kit'
import { type Compare, type Filter, parse, stringify } from 'scim2-parse-filter'
import { ScimError, type ScimPatchOperation, type ScimResource, scimPatch } from 'scim-patch'
import { type Attribute, enterpriseSchema, userSchema } from './attributes.ts'
import { type UserContent, hasNameTwice, isOfOtherSchema, isRecord } from './content.ts'

/** Attributes of RFC 7643 that are not stored. Changes to them have no effect. */
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

interface ResolvedPath {
  readonly path: string
  readonly root: string
  readonly isExtension: boolean
  readonly attribute: Attribute
  readonly filter: Filter | undefined
  readonly part: Attribute | undefined
}

/**
 * Every path is resolved against our schemas first, because the library would follow any path, even into
 * `Object.prototype`.
 */
export function patchUser(content: UserContent, { Operations }: Pick<ScimPatch, 'Operations'>): unknown {
  // The library's type requires dates in `meta`, but it does not read them.
  let resource: ScimResource & UserContent = { ...structuredClone(content), schemas: [], meta: noMeta }
  for (const operation of Operations) {
    for (const each of resolve(operation, resource)) {
      try {
        const before = resource
        const { marked, operation: marking } = markSelected(resource, each)
        if (marking === undefined) continue
        resource = scimPatch(marked, [marking], { mutateDocument: false, treatMissingAsAdd: true })
        resource = withOnePrimary(before, withoutMarks(resource))
      } catch (cause) {
        if (!(cause instanceof ScimError)) throw cause
        throw patchProblem(
          cause.scimCode === 'noTarget' ? 'noTarget' : 'invalidPath',
          'the operation cannot be done',
          cause,
        )
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

interface ResolvedOperation {
  readonly operation: ScimPatchOperation
  readonly place: ResolvedPath
}

/** Marks the values that a filter selects while the library runs. No attribute has this name. */
const markName = 'posternSelected'

/**
 * Filters by a mark, because the library compares case-sensitively (against RFC 7643, section 2.2) and splits paths at
 * each colon. Returns no operation for a removal that selects nothing.
 */
function markSelected<T extends UserContent>(
  resource: T,
  { operation, place: { filter, root, isExtension, part } }: ResolvedOperation,
): { readonly marked: T; readonly operation: ScimPatchOperation | undefined } {
  if (filter === undefined || isExtension) return { marked: resource, operation }
  const meant = new Set(entriesOf(resource, root).filter((entry) => isSelected(entry, filter)))
  if (meant.size === 0) return { marked: resource, operation: operation.op === 'remove' ? undefined : operation }
  const entries = entriesOf(resource, root).map((entry) => (meant.has(entry) ? { ...entry, [markName]: true } : entry))
  const path = `${root}[${markName} eq true]${part === undefined ? '' : `.${part.name}`}`
  return { marked: { ...resource, [root]: entries }, operation: { ...operation, path } }
}

function resolve(operation: Operation, resource: UserContent): ResolvedOperation[] {
  const op = operation.op.toLowerCase()
  const { path, value } = operation
  if (op === 'remove') return resolveRemoval(operation, resource)
  if (path !== undefined && path.toLowerCase() !== enterpriseUrn.toLowerCase()) {
    const place = placeOf(path)
    return place === undefined ? [] : [assign(op, place, value)]
  }
  if (!isRecord(value)) throw patchProblem('invalidValue', 'without a path the value must be an object')
  if (hasNameTwice(value)) throw nameTwice()
  return Object.entries(value).flatMap(([name, inner]) => {
    const isExtension = name.toLowerCase() === enterpriseUrn.toLowerCase()
    if (isExtension && isRecord(inner)) return resolve({ op, path: enterpriseUrn, value: inner }, resource)
    if (isExtension && inner === null) return resolveRemoval({ op: 'remove', path: enterpriseUrn }, resource)
    if (isExtension) throw patchProblem('invalidValue', 'the value of an extension must be an object')
    if (name.toLowerCase() === userUrn.toLowerCase()) return resolve({ op, value: inner }, resource)
    const at = placeOf(path === undefined ? name : `${enterpriseUrn}:${name}`, { ignoresUnknown: true })
    return at === undefined ? [] : [assign(op, at, inner)]
  })
}

function resolveRemoval({ path, value }: Operation, resource: UserContent): ResolvedOperation[] {
  if (path === undefined) throw patchProblem('noTarget', 'a removal needs a path')
  if (path.toLowerCase() === enterpriseUrn.toLowerCase()) {
    const extension = resource[enterpriseUrn]
    const names = isRecord(extension) ? Object.keys(extension) : []
    return names.flatMap((name) => resolveRemoval({ op: 'remove', path: `${enterpriseUrn}:${name}` }, resource))
  }
  const place = placeOf(path)
  // The target of a removal is missing already.
  if (place === undefined || !isPresent(place, resource)) return []
  const { attribute, filter, part } = place
  const isOfValues = attribute.multi === true && filter === undefined && part === undefined && (value ?? '') !== ''
  const meant = isOfValues ? { ...place, filter: filterOfValues(attribute, value) } : place
  return [{ operation: { op: 'remove', path: place.path }, place: meant }]
}

/** Some providers send the values to remove beside the path. */
function filterOfValues({ parts = [] }: Attribute, value: unknown): Filter {
  const given = scimValues(value, 'value')
  const filters = (Array.isArray(given) ? given : []).map((each: unknown): Filter => {
    const terms = Object.entries(isRecord(each) ? each : {}).flatMap(([name, inner]): Filter[] => {
      const part = find(parts, name)
      const tells = part !== undefined && part.name !== 'primary' && part.name !== 'display'
      return tells && typeof inner === 'string' && inner !== ''
        ? [{ op: 'eq', attrPath: part.name, compValue: inner }]
        : []
    })
    if (terms.length === 0)
      throw patchProblem('invalidValue', 'the values to remove must be named by `value` or another part')
    return { op: 'and', filters: terms }
  })
  return { op: 'or', filters }
}

function withoutMarks<T extends UserContent>(resource: T): T {
  const multiple = userSchema.attributes.filter(({ multi }) => multi === true)
  const cleared = multiple.flatMap(({ name }) => {
    const entries = resource[name]
    return Array.isArray(entries) ? [[name, entries.map(withoutMark)] as const] : []
  })
  return { ...resource, ...Object.fromEntries(cleared) }
}

function withoutMark(entry: unknown): unknown {
  if (!isRecord(entry)) return entry
  const { [markName]: _mark, ...rest } = entry
  return rest
}

function isSelected(entry: Readonly<Record<string, unknown>>, filter: Filter): boolean {
  switch (filter.op) {
    case 'and':
      return filter.filters.every((each) => isSelected(entry, each))
    case 'or':
      return filter.filters.some((each) => isSelected(entry, each))
    case 'not':
      return !isSelected(entry, filter.filter)
    case '[]':
      return false
    case 'pr':
      return (entry[filter.attrPath] ?? '') !== ''
    default:
      return isMatch(comparable(entry[filter.attrPath]), filter.op, comparable(filter.compValue))
  }
}

function comparable(value: unknown): string {
  return value === undefined || value === null ? '' : String(value).normalize('NFC').toLowerCase()
}

function isMatch(left: string, op: Compare['op'], right: string): boolean {
  switch (op) {
    case 'eq':
      return left === right
    case 'ne':
      return left !== right
    case 'co':
      return left.includes(right)
    case 'sw':
      return left.startsWith(right)
    case 'ew':
      return left.endsWith(right)
    case 'gt':
      return left > right
    case 'ge':
      return left >= right
    case 'lt':
      return left < right
    case 'le':
      return left <= right
    default:
      return op satisfies never
  }
}

const withPrimary = ['emails', 'phoneNumbers', 'addresses'] as const

/** If another entry became primary, the earlier one no longer is (RFC 7644, section 3.5.2). */
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

/** Null removes the attribute. A manager may be only an id. */
function assign(op: string, place: ResolvedPath, value: unknown): ResolvedOperation {
  return { operation: operationOf(op, place, inNamesOfParts(place, value)), place }
}

/** Corrects the case of names, because the library would add a second member. */
function inNamesOfParts(place: ResolvedPath, value: unknown): unknown {
  const { attribute, part } = place
  if (Array.isArray(value)) return value.map((each: unknown) => inNamesOfParts(place, each))
  if (attribute.parts === undefined || part !== undefined || !isRecord(value)) return value
  if (hasNameTwice(value)) throw nameTwice()
  const { parts } = attribute
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [find(parts, name)?.name ?? name, inner]))
}

function operationOf(op: string, place: ResolvedPath, given: unknown): ScimPatchOperation {
  const value = place.filter !== undefined && place.part === undefined ? oneOf(given) : given
  if (place.attribute.name === 'active' && value === '')
    throw patchProblem('invalidValue', 'active must be true or false')
  if (value === null || value === undefined || value === '') return { op: 'remove', path: place.path }
  if (place.attribute.name === 'manager' && place.part === undefined) return managerOf(op, place, value)
  const isList = place.attribute.multi === true && place.filter === undefined && place.part === undefined
  const textPart = place.attribute.parts?.[0]?.name
  return {
    op: op === 'add' ? 'add' : 'replace',
    path: place.path,
    value: isList ? scimValues(value, textPart) : value,
  }
}

/** The library would ignore a list. */
function oneOf(given: unknown): unknown {
  if (!Array.isArray(given)) return given
  const [one, ...others]: readonly unknown[] = given
  if (others.length > 0)
    throw patchProblem('invalidValue', 'only one value can replace the values that a filter selects')
  return one
}

function managerOf(op: string, { path }: ResolvedPath, value: unknown): ScimPatchOperation {
  const [one, ...others] = Array.isArray(value) ? value : [value]
  if (others.length > 0) throw patchProblem('invalidValue', 'a user can have only one manager')
  if (typeof one === 'string' || typeof one === 'number')
    return { op: 'replace', path: `${path}.value`, value: String(one) }
  if (!isRecord(one) || typeof (one['value'] ?? '') !== 'string') {
    throw patchProblem('invalidValue', 'a manager must be the id of a user')
  }
  return { op: op === 'add' ? 'add' : 'replace', path, value: one }
}

function isPresent({ root, isExtension, attribute }: ResolvedPath, resource: UserContent): boolean {
  if (!isExtension) return resource[root] !== undefined
  const extension = resource[enterpriseUrn]
  return isRecord(extension) && extension[attribute.name] !== undefined
}

/**
 * Undefined for an attribute that is not stored. Throws `invalidPath` for an unknown attribute, unless
 * `ignoresUnknown`.
 */
function placeOf(path: string, { ignoresUnknown = false } = {}): ResolvedPath | undefined {
  const bracket = path.indexOf('[')
  const close = path.lastIndexOf(']')
  if (bracket !== -1 && close < bracket) throw unknownPathProblem(path)
  const head = bracket === -1 ? path : path.slice(0, bracket)
  const colon = head.lastIndexOf(':')
  const urn = head.slice(0, Math.max(0, colon)).toLowerCase()
  const isExtension = urn === enterpriseUrn.toLowerCase()
  if (urn !== '' && !isExtension && urn !== userUrn.toLowerCase()) {
    if (ignoresUnknown || isOfOtherSchema(head)) return undefined
    throw unknownPathProblem(path)
  }
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
  const known = isExtension ? enterpriseSchema.attributes : userSchema.attributes
  const attribute = find(known, name)
  const [partName, ...beyond] = after
  const part = partName === undefined ? undefined : find(attribute?.parts ?? [], partName)
  if (attribute === undefined || beyond.length > 0 || (partName !== undefined && part === undefined)) {
    if (ignoresUnknown || urn !== '') return undefined
    throw unknownPathProblem(path)
  }
  const filter = bracket === -1 ? undefined : filterOf(path.slice(bracket + 1, close), attribute)
  const chosen = filter === undefined ? '' : `[${stringify(filter)}]`
  const prefix = isExtension ? `${enterpriseUrn}:` : ''
  return {
    path: `${prefix}${attribute.name}${chosen}${part === undefined ? '' : `.${part.name}`}`,
    root: attribute.name,
    isExtension,
    attribute,
    filter,
    part,
  }
}

function find(attributes: readonly Attribute[], name: string): Attribute | undefined {
  return attributes.find((each) => each.name.toLowerCase() === name.toLowerCase())
}

function filterOf(text: string, attribute: Attribute): Filter {
  let filter: Filter
  try {
    filter = parse(text)
  } catch (cause) {
    throw patchProblem('invalidFilter', 'the filter in the path cannot be read', cause)
  }
  return renamed(filter, attribute)
}

function renamed(filter: Filter, attribute: Attribute): Filter {
  switch (filter.op) {
    case 'and':
    case 'or':
      return { op: filter.op, filters: filter.filters.map((each) => renamed(each, attribute)) }
    case 'not':
      return { op: 'not', filter: renamed(filter.filter, attribute) }
    case '[]':
      throw patchProblem('invalidFilter', 'a filter in a path cannot contain another filter')
    default: {
      const part = find(attribute.multi === true ? (attribute.parts ?? []) : [], filter.attrPath)
      if (part === undefined) throw patchProblem('invalidFilter', `${attribute.name} has no such part`)
      return { ...filter, attrPath: part.name }
    }
  }
}

function unknownPathProblem(path: string) {
  return patchProblem('invalidPath', `there is no attribute ${path.slice(0, 80)}`)
}

function nameTwice() {
  return patchProblem('invalidSyntax', 'a member must occur once: names are case-insensitive')
}

function patchProblem(scimType: ScimType, detail: string, cause?: unknown) {
  const errors = [{ pointer: '/Operations', code: scimType, detail: `cannot be done: ${detail}` }]
  return problem('bad_request', { detail: 'Nothing was changed.', errors, cause })
}
