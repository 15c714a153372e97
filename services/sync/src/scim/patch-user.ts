import { isDeepStrictEqual } from 'node:util'
import { type ScimPatch, enterpriseUrn, scimValues, userUrn } from '@postern/contracts'
import type { Compare, Filter } from 'scim2-parse-filter'
import { ScimError, type ScimPatchOperation, type ScimResource, scimPatch } from 'scim-patch'
import { type Attribute, userSchema } from './attributes.ts'
import { type UserContent, hasNameTwice, isRecord } from './content.ts'
import { patchProblem, repeatedNameProblem } from './patch-problem.ts'
import { type ResolvedPath, findAttribute, resolvePath } from './resolve-path.ts'

/**
 * Resolves every path against our schemas first, because the library would follow any path,
 * even into `Object.prototype`.
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
  const selected = new Set(entriesOf(resource, root).filter((entry) => isSelected(entry, filter)))
  if (selected.size === 0) return { marked: resource, operation: operation.op === 'remove' ? undefined : operation }
  const entries = entriesOf(resource, root).map((entry) =>
    selected.has(entry) ? { ...entry, [markName]: true } : entry,
  )
  const path = `${root}[${markName} eq true]${part === undefined ? '' : `.${part.name}`}`
  return { marked: { ...resource, [root]: entries }, operation: { ...operation, path } }
}

function resolve(operation: Operation, resource: UserContent): ResolvedOperation[] {
  const op = operation.op.toLowerCase()
  const { path, value } = operation
  if (op === 'remove') return resolveRemoval(operation, resource)
  if (path !== undefined && path.toLowerCase() !== enterpriseUrn.toLowerCase()) {
    const place = resolvePath(path)
    return place === undefined ? [] : [assign(op, place, value)]
  }
  if (!isRecord(value)) throw patchProblem('invalidValue', 'without a path the value must be an object')
  if (hasNameTwice(value)) throw repeatedNameProblem()
  return Object.entries(value).flatMap(([name, inner]) => {
    const isExtension = name.toLowerCase() === enterpriseUrn.toLowerCase()
    if (isExtension && isRecord(inner)) return resolve({ op, path: enterpriseUrn, value: inner }, resource)
    if (isExtension && inner === null) return resolveRemoval({ op: 'remove', path: enterpriseUrn }, resource)
    if (isExtension) throw patchProblem('invalidValue', 'the value of an extension must be an object')
    if (name.toLowerCase() === userUrn.toLowerCase()) return resolve({ op, value: inner }, resource)
    const at = resolvePath(path === undefined ? name : `${enterpriseUrn}:${name}`, { ignoresUnknown: true })
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
  const place = resolvePath(path)
  if (place === undefined || !isPresent(place, resource)) return []
  const { attribute, filter, part } = place
  const isOfValues = attribute.multi === true && filter === undefined && part === undefined && (value ?? '') !== ''
  const target = isOfValues ? { ...place, filter: filterOfValues(attribute, value) } : place
  return [{ operation: { op: 'remove', path: place.path }, place: target }]
}

/** Some providers send the values to remove beside the path. */
function filterOfValues({ parts = [] }: Attribute, value: unknown): Filter {
  const given = scimValues(value, 'value')
  const filters = (Array.isArray(given) ? given : []).map((each: unknown): Filter => {
    const terms = Object.entries(isRecord(each) ? each : {}).flatMap(([name, inner]): Filter[] => {
      const part = findAttribute(parts, name)
      const isIdentifying = part !== undefined && part.name !== 'primary' && part.name !== 'display'
      return isIdentifying && typeof inner === 'string' && inner !== ''
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
    const kept = primary.findLast((entry) => !earlier.some((one) => isDeepStrictEqual(one, entry))) ?? primary[0]
    return [[name, entries.map((entry) => (isPrimary(entry) && entry !== kept ? { ...entry, primary: false } : entry))]]
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
  if (hasNameTwice(value)) throw repeatedNameProblem()
  const { parts } = attribute
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [findAttribute(parts, name)?.name ?? name, inner]),
  )
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

/** Returns the only value of a list, because the library would ignore a list. */
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
