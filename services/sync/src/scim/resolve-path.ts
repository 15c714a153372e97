import { enterpriseUrn, userUrn } from '@postern/contracts'
import { type Filter, parse } from 'scim2-parse-filter'
import { type Attribute, enterpriseSchema, userSchema } from './attributes.ts'
import { isOfOtherSchema } from './content.ts'
import { patchProblem } from './patch-problem.ts'

/** Attributes of RFC 7643 that are not stored. Changes to them have no effect. */
const ignoredAttributes: ReadonlySet<string> = new Set([
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

export interface ResolvedPath {
  readonly isExtension: boolean
  readonly attribute: Attribute
  readonly filter: Filter | undefined
  readonly part: Attribute | undefined
}

/**
 * Resolves a path of a patch against our schemas. Undefined for an attribute that is not stored. Throws `invalidPath` for an unknown
 * attribute, unless `ignoresUnknown`.
 */
export function resolvePath(path: string, { ignoresUnknown = false } = {}): ResolvedPath | undefined {
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
  if (!isExtension && ignoredAttributes.has(name.toLowerCase())) return undefined
  const known = isExtension ? enterpriseSchema.attributes : userSchema.attributes
  const attribute = findAttribute(known, name)
  const [partName, ...beyond] = after
  const part = partName === undefined ? undefined : findAttribute(attribute?.parts ?? [], partName)
  if (attribute === undefined || beyond.length > 0 || (partName !== undefined && part === undefined)) {
    if (ignoresUnknown || urn !== '') return undefined
    throw unknownPathProblem(path)
  }
  const filter = bracket === -1 ? undefined : filterOf(path.slice(bracket + 1, close), attribute)
  return { isExtension, attribute, filter, part }
}

export function findAttribute(attributes: readonly Attribute[], name: string): Attribute | undefined {
  return attributes.find((each) => each.name.toLowerCase() === name.toLowerCase())
}

function filterOf(text: string, attribute: Attribute): Filter {
  let filter: Filter
  try {
    filter = parse(text)
  } catch (cause) {
    throw patchProblem('invalidFilter', 'the filter in the path cannot be read', cause)
  }
  return withPartNames(filter, attribute)
}

function withPartNames(filter: Filter, attribute: Attribute): Filter {
  switch (filter.op) {
    case 'and':
    case 'or':
      return { op: filter.op, filters: filter.filters.map((each) => withPartNames(each, attribute)) }
    case 'not':
      return { op: 'not', filter: withPartNames(filter.filter, attribute) }
    case '[]':
      throw patchProblem('invalidFilter', 'a filter in a path cannot contain another filter')
    default: {
      const part = findAttribute(attribute.multi === true ? (attribute.parts ?? []) : [], filter.attrPath)
      if (part === undefined) throw patchProblem('invalidFilter', `${attribute.name} has no such part`)
      return { ...filter, attrPath: part.name }
    }
  }
}

function unknownPathProblem(path: string) {
  return patchProblem('invalidPath', `there is no attribute ${path.slice(0, 80)}`)
}
