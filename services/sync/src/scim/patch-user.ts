import { type ScimPatch, enterpriseUrn, scimValues, userUrn } from '@postern/contracts'
import type { Filter } from 'scim2-parse-filter'
import { type Change, applyChange, extensionOf, valueAt } from './apply-change.ts'
import type { Attribute } from './attributes.ts'
import { type UserContent, hasNameTwice, isRecord } from './content.ts'
import { patchProblem, repeatedNameProblem } from './patch-problem.ts'
import { type ResolvedPath, findAttribute, resolvePath } from './resolve-path.ts'

/** Applies a patch (RFC 7644, section 3.5.2). The result is not validated. */
export function patchUser(content: UserContent, { Operations }: Pick<ScimPatch, 'Operations'>): UserContent {
  return Operations.reduce<UserContent>(
    (before, operation) => resolve(operation, before).reduce(applyChange, before),
    content,
  )
}

interface Operation {
  readonly op: string
  readonly path?: string | undefined
  readonly value?: unknown
}

function resolve(operation: Operation, content: UserContent): Change[] {
  const op = operation.op.toLowerCase()
  const { path, value } = operation
  if (op === 'remove') return resolveRemoval(operation, content)
  if (path !== undefined && path.toLowerCase() !== enterpriseUrn.toLowerCase()) {
    const place = resolvePath(path)
    return place === undefined ? [] : [assign(op, place, value)]
  }
  if (!isRecord(value)) throw patchProblem('invalidValue', 'without a path the value must be an object')
  if (hasNameTwice(value)) throw repeatedNameProblem()
  return Object.entries(value).flatMap(([name, inner]) => {
    const isExtension = name.toLowerCase() === enterpriseUrn.toLowerCase()
    if (isExtension && isRecord(inner)) return resolve({ op, path: enterpriseUrn, value: inner }, content)
    if (isExtension && inner === null) return resolveRemoval({ op: 'remove', path: enterpriseUrn }, content)
    if (isExtension) throw patchProblem('invalidValue', 'the value of an extension must be an object')
    if (name.toLowerCase() === userUrn.toLowerCase()) return resolve({ op, value: inner }, content)
    const at = resolvePath(path === undefined ? name : `${enterpriseUrn}:${name}`, { ignoresUnknown: true })
    return at === undefined ? [] : [assign(op, at, inner)]
  })
}

function resolveRemoval({ path, value }: Operation, content: UserContent): Change[] {
  if (path === undefined) throw patchProblem('noTarget', 'a removal needs a path')
  if (path.toLowerCase() === enterpriseUrn.toLowerCase()) {
    return Object.keys(extensionOf(content)).flatMap((name) =>
      resolveRemoval({ op: 'remove', path: `${enterpriseUrn}:${name}` }, content),
    )
  }
  const place = resolvePath(path)
  if (place === undefined || valueAt(content, place) === undefined) return []
  const { attribute, filter, part } = place
  const isOfValues = attribute.multi === true && filter === undefined && part === undefined && (value ?? '') !== ''
  const target = isOfValues ? { ...place, filter: filterOfValues(attribute, value) } : place
  return [{ op: 'remove', place: target }]
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

/** Names of parts are case-insensitive (RFC 7643, section 2.1). */
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

/** Null removes the attribute. A manager may be only an id. */
function assign(op: string, place: ResolvedPath, sent: unknown): Change {
  const given = inNamesOfParts(place, sent)
  const value = place.filter !== undefined && place.part === undefined ? oneOf(given) : given
  if (place.attribute.name === 'active' && value === '')
    throw patchProblem('invalidValue', 'active must be true or false')
  if (value === null || value === undefined || value === '') return { op: 'remove', place }
  if (place.attribute.name === 'manager' && place.part === undefined) return managerOf(op, place, value)
  const isList = place.attribute.multi === true && place.filter === undefined && place.part === undefined
  const textPart = place.attribute.parts?.[0]?.name
  return {
    op: op === 'add' ? 'add' : 'replace',
    place,
    value: isList ? scimValues(value, textPart) : value,
  }
}

/** A filter selects values to be replaced with one. */
function oneOf(given: unknown): unknown {
  if (!Array.isArray(given)) return given
  const [one, ...others]: readonly unknown[] = given
  if (others.length > 0)
    throw patchProblem('invalidValue', 'only one value can replace the values that a filter selects')
  return one
}

function managerOf(op: string, place: ResolvedPath, value: unknown): Change {
  const [one, ...others] = Array.isArray(value) ? value : [value]
  if (others.length > 0) throw patchProblem('invalidValue', 'a user can have only one manager')
  if (typeof one === 'string' || typeof one === 'number')
    return {
      op: 'replace',
      place: { ...place, part: findAttribute(place.attribute.parts ?? [], 'value') },
      value: String(one),
    }
  if (!isRecord(one) || typeof (one['value'] ?? '') !== 'string') {
    throw patchProblem('invalidValue', 'a manager must be the id of a user')
  }
  return { op: op === 'add' ? 'add' : 'replace', place, value: one }
}
