import { type MappingRule, wordsOf } from '@postern/contracts'
import type { z } from 'zod'
import type { DatasetRules } from '../dataset/rules.ts'
import { withUsableAddresses } from '../dataset/warnings.ts'
import type { Rule } from './attributes.ts'
import { excerptOf } from './excerpt.ts'
import { nameOfPart } from './pointer.ts'
import { type FieldFault, TransformError, applyTransform } from './transform.ts'

/** A mapped row, or all its faults, with the key if the row has one. */
export type MappedRow =
  | {
      readonly ok: true
      readonly key: string
      readonly parent: string | undefined
      readonly content: Readonly<Record<string, unknown>>
      readonly warnings: readonly FieldFault[]
    }
  | { readonly ok: false; readonly key: string | undefined; readonly faults: readonly FieldFault[] }

export type Values = Readonly<Record<string, unknown>>

/** Without rules, fields come from columns of the same name. */
export function createMapper(rules: readonly Rule[], dataset: DatasetRules): (values: Values) => MappedRow {
  const rulesFor = createRuleFinder(rules, dataset)
  let targets: { readonly of: readonly Rule[]; readonly list: readonly Target[] } = { of: [], list: [] }
  return (values) => {
    const faults: FieldFault[] = []
    const assigned: Record<string, unknown> = {}
    const made: Record<string, Record<string, unknown>> = {}
    const effective = rulesFor(values)
    if (targets.of !== effective) targets = { of: effective, list: effective.map(targetOf) }
    for (const target of targets.list) {
      const { rule } = target
      try {
        const value = valueOf(rule, values, dataset)
        if (value === undefined) continue
        if (target.isForbidden) faults.push(forbiddenName(rule.target))
        else setMember(assigned, made, target, value)
      } catch (error) {
        if (!(error instanceof TransformError)) throw error
        faults.push({ field: rule.target, code: 'invalid', message: error.message, excerpt: error.excerpt })
      }
    }
    const { row: draft, warnings: addressWarnings } = withUsableAddresses(assigned)
    if (isObject(draft['custom']) && Object.hasOwn(draft['custom'], '__proto__'))
      faults.push(forbiddenName('custom.__proto__'))
    const given = dataset.schema.safeParse(draft)
    const folded = given.success ? [] : foldedFields(draft, given.error.issues, dataset)
    const parsed = folded.length === 0 ? given : dataset.schema.safeParse(foldLines(draft, folded))
    for (const issue of parsed.error?.issues ?? []) {
      const field = issue.path.join('.')
      if (faults.some((fault) => fault.field === field)) continue
      faults.push({
        field: field === '' ? null : field,
        code: issue.code === 'invalid_type' && memberAt(draft, field) === undefined ? 'missing' : 'invalid',
        message: memberAt(draft, field) === undefined && field !== '' ? 'must be given' : wordsOf(issue),
        excerpt: excerptOf(memberAt(draft, field)),
      })
    }
    const content = parsed.data
    const own = content === undefined ? [] : (dataset.faultsOf?.(content) ?? [])
    for (const { field, code, detail } of own) {
      if (faults.some((fault) => fault.field === field)) continue
      faults.push({ field, code, message: detail, excerpt: excerptOf(memberAt(draft, field)) })
    }
    const key = content?.[dataset.keyField] ?? draft[dataset.keyField]
    if (content === undefined || faults.length > 0) {
      return { ok: false, key: readableKey(key), faults }
    }
    const parent = dataset.parentField === null ? undefined : content[dataset.parentField]
    return {
      ok: true,
      key: String(key),
      parent: typeof parent === 'string' ? parent : undefined,
      content: canonical(content),
      warnings: [
        ...addressWarnings.map((warning) => ({ ...warning, excerpt: excerptOf(memberAt(assigned, warning.field)) })),
        ...(dataset.warningsOf?.(content) ?? []).map((warning) => ({
          ...warning,
          excerpt: excerptOf(memberAt(content, warning.field)),
        })),
        ...folded.map((path) => ({
          field: path.join('.'),
          code: 'line_break_folded',
          message: 'contained a line break, which was replaced with a blank',
          excerpt: excerptOf(memberAt(draft, path.join('.'))),
        })),
      ],
    }
  }
}

const lineBreak = /[\t\n\v\f\r\u0085\u2028\u2029]/

/** Keys are excluded, because two of them could become equal. */
function foldedFields(
  draft: Values,
  issues: readonly z.core.$ZodIssue[],
  { keyField, parentField }: DatasetRules,
): readonly (readonly string[])[] {
  const keys: ReadonlySet<unknown> = new Set([keyField, parentField, 'entities'])
  return issues.flatMap(({ code, path }) => {
    const names = path.map(String)
    const value = memberAt(draft, names.join('.'))
    const isFolded = code === 'invalid_format' && typeof value === 'string' && lineBreak.test(value)
    return isFolded && !keys.has(path[0]) ? [names] : []
  })
}

function onOneLine(text: string): string {
  return text
    .split(lineBreak)
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join(' ')
}

function foldLines(value: unknown, paths: readonly (readonly string[])[]): unknown {
  if (paths.some((path) => path.length === 0)) {
    return typeof value === 'string' ? onOneLine(value) : value
  }
  if (!isObject(value) || paths.length === 0) return value
  const fold = (name: string, member: unknown): unknown =>
    foldLines(
      member,
      paths.filter(([first]) => first === name).map(([, ...rest]) => rest),
    )
  if (Array.isArray(value)) return value.map((member, at) => fold(String(at), member))
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, fold(name, member)]))
}

export function fieldsOf(dataset: DatasetRules): readonly string[] {
  return Object.keys(dataset.schema.shape)
}

export function createRuleFinder(rules: readonly Rule[], dataset: DatasetRules): (values: Values) => readonly Rule[] {
  if (rules.length > 0) return () => rules
  const known = new Set(fieldsOf(dataset))
  let columns: readonly string[] = []
  let found: readonly MappingRule[] = []
  return (values) => {
    const names = Object.keys(values)
    if (names.length === columns.length && names.every((name, at) => name === columns[at])) return found
    columns = names
    found = createIdentityRules(names, known)
    return found
  }
}

function createIdentityRules(columns: readonly string[], known: ReadonlySet<string>): MappingRule[] {
  return columns
    .filter((column) => known.has(column.split('.', 1)[0] ?? ''))
    .map((column) => ({ target: column, source: column }))
}

/** Undefined if the value is empty. Throws TransformError. */
export function valueOf(rule: Rule, values: Values, dataset: DatasetRules): unknown {
  let value: unknown = rule.source === undefined ? rule.constant : read(values, rule)
  if (typeof value === 'string') value = value.trim()
  for (const transform of rule.transforms ?? []) {
    if (isEmpty(value)) break
    value = applyTransform(transform, value)
  }
  if (isEmpty(value)) value = rule.default
  if (isEmpty(value)) return undefined
  return convertValue(value, rule.target, dataset)
}

/** Returns undefined for a key with lost bytes, which could be that of any row. */
export function readableKey(key: unknown): string | undefined {
  if (typeof key !== 'string') return undefined
  const trimmed = key.trim()
  const isWhole = !/[\0\uFDD0]/.test(trimmed) && trimmed.isWellFormed()
  return isWhole && trimmed !== '' && trimmed.length <= 255 ? trimmed : undefined
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === ''
}

function convertValue(value: unknown, target: string, dataset: DatasetRules): unknown {
  if (dataset.numbers.includes(target) && typeof value === 'string') return applyTransform({ kind: 'number' }, value)
  if (dataset.booleans.includes(target) && typeof value === 'string') return applyTransform({ kind: 'boolean' }, value)
  if (dataset.lists.includes(target) && typeof value === 'string') {
    return applyTransform({ kind: 'split', separator: ';' }, value)
  }
  // Spreadsheets and databases may hold keys as numbers.
  const isText = !target.startsWith('custom.') && !dataset.numbers.includes(target)
  return isText && (typeof value === 'number' || typeof value === 'bigint') ? String(value) : value
}

export function read(values: Values, { source, isOneAList }: Pick<Rule, 'source' | 'isOneAList'>): unknown {
  if (source === undefined) return undefined
  if (!source.startsWith('/')) return Object.hasOwn(values, source) ? values[source] : undefined
  // RFC 6901, section 4.
  let at: unknown = values
  for (const part of source.slice(1).split('/')) {
    if (isOneAList === true && typeof at === 'string' && part === '0') continue
    if (typeof at !== 'object' || at === null) return undefined
    const member = nameOfPart(part)
    at = Object.hasOwn(at, member) ? Object.getOwnPropertyDescriptor(at, member)?.value : undefined
  }
  return at
}

interface Target {
  readonly rule: Rule
  readonly field: string
  /** Undefined if the rule sets the whole field. */
  readonly member: string | undefined
  /** `__proto__` would set the prototype instead of a member. */
  readonly isForbidden: boolean
}

function targetOf(rule: Rule): Target {
  const { target } = rule
  const dot = target.indexOf('.')
  return {
    rule,
    field: dot === -1 ? target : target.slice(0, dot),
    member: dot === -1 ? undefined : target.slice(dot + 1),
    isForbidden: target.split('.').includes('__proto__'),
  }
}

function forbiddenName(field: string): FieldFault {
  return { field, code: 'forbidden_key', message: 'is not allowed as a member name', excerpt: null }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** `made` holds the objects of the draft that were created here and may be changed. */
function setMember(
  draft: Record<string, unknown>,
  made: Record<string, Record<string, unknown>>,
  { field, member }: Target,
  value: unknown,
): void {
  if (member === undefined) {
    draft[field] = value
    return
  }
  const inner = draft[field]
  const own = made[field]
  if (own !== undefined && own === inner) {
    own[member] = value
    return
  }
  const fresh = { ...(typeof inner === 'object' ? inner : {}), [member]: value }
  made[field] = fresh
  draft[field] = fresh
}

export function memberAt(draft: Values, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>(
      (value, part) =>
        typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, part)?.value : undefined,
      draft,
    )
}

/** Omits empty members, as the universe does, so that equal rows compare as equal. */
function canonical(content: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { custom, entities, email, ...rest } = content
  return {
    ...rest,
    ...(typeof email === 'string' ? { email: email.toLowerCase() } : {}),
    ...(Array.isArray(entities) && entities.length > 0 ? { entities } : {}),
    ...(typeof custom === 'object' && custom !== null && Object.keys(custom).length > 0 ? { custom } : {}),
  }
}
