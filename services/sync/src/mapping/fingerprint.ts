import { hash } from 'node:crypto'
import type { DatasetRules } from '../dataset/rules.ts'
import { TransformError } from './transform.ts'
import type { Rule } from './attributes.ts'
import type { SourceTexts } from '../source/types.ts'
import { type Values, createRuleFinder, read, valueOf } from './map-row.ts'

/** Identifies a row without mapping it. */
export interface Fingerprint {
  /** 16 bytes, one per character, over the mapping and the values that it reads. */
  readonly hash: string
  readonly key: string
  /** The value of the dataset's `comparedField`; undefined if an inactive row gives it up. */
  readonly also: string | undefined
}

/**
 * Part of every hash. Increase it with each change that maps the same values differently, so that all rows are compared
 * again.
 */
const mapperVersion = 3
/** Bytes of a hash. */
export const hashBytes = 16

/**
 * Creates a function that fingerprints rows by the values that the mapping reads. It returns undefined for a row
 * without a readable key.
 */
export function createFingerprinter(
  rules: readonly Rule[],
  dataset: DatasetRules,
): (values: Values) => Fingerprint | undefined {
  const rulesFor = createRuleFinder(rules, dataset)
  let prepared = prepare([], dataset)
  return (values) => {
    const effective = rulesFor(values)
    if (prepared.rules !== effective) prepared = prepare(effective, dataset)
    const key = textOf(prepared.keyRule, values, dataset)
    if (key === undefined) return undefined
    let text = prepared.salt
    for (const rule of effective) text += rule.source === undefined ? '' : encode(read(values, rule))
    return {
      hash: hash('sha256', text, 'binary').slice(0, hashBytes),
      key,
      also: givesUpUniqueValue(prepared.statusRule, values, dataset)
        ? undefined
        : textOf(prepared.alsoRule, values, dataset),
    }
  }
}

/** Fingerprints from the text of rows. */
export interface TextFingerprints {
  hashOf(text: string): string
  /** Returns the other members of the fingerprint, or undefined if the row must be parsed for them. */
  keysAt(texts: SourceTexts, index: number): Pick<Fingerprint, 'key' | 'also'> | undefined
}

/**
 * Creates fingerprints from text, which is much faster than parsing. Undefined if the mapping does not read every
 * column, because changes of other columns must not count.
 */
export function createTextPrinter(
  rules: readonly Rule[],
  dataset: DatasetRules,
): (table: Table) => TextFingerprints | undefined {
  let made: { readonly form: string; readonly prints: TextFingerprints | undefined } | undefined
  return (table) => {
    const { form } = table
    if (made?.form !== form) made = { form, prints: createTextFingerprints(rules, dataset, table) }
    return made.prints
  }
}

type Table = Pick<SourceTexts, 'columns' | 'form' | 'isWhole'>

function createTextFingerprints(
  rules: readonly Rule[],
  dataset: DatasetRules,
  { columns, form, isWhole }: Table,
): TextFingerprints | undefined {
  const effective = createRuleFinder(rules, dataset)(Object.fromEntries(columns.map((name) => [name, ''])))
  const { keyRule, alsoRule, statusRule, salt } = prepare(effective, dataset)
  const sources = new Set(effective.map(({ source }) => source))
  if (!isWhole || keyRule?.source === undefined || columns.some((name) => !sources.has(name))) return undefined
  const tableSalt = hash('sha256', JSON.stringify(['text', salt, form]), 'base64')
  const isPlain = new Map([keyRule, alsoRule].map((rule) => [rule, rule !== undefined && isTextOfCell(rule)]))
  const textAt = (rule: Rule, texts: SourceTexts, index: number): string | null | undefined => {
    if (rule.source === undefined) return textOf(rule, {}, dataset) ?? null
    const cell = texts.cell(index, rule.source)
    if (cell === undefined) return undefined
    if (isPlain.get(rule) === true) return cell.trim() || null
    return textOf(rule, { [rule.source]: cell }, dataset) ?? null
  }
  return {
    hashOf: (text) => hash('sha256', tableSalt + text, 'binary').slice(0, hashBytes),
    keysAt: (texts, index) => {
      const key = textAt(keyRule, texts, index)
      const status = statusRule?.source === undefined ? undefined : texts.cell(index, statusRule.source)
      // The caller parses the row instead.
      if (statusRule?.source !== undefined && status === undefined) return undefined
      const isFree = givesUpUniqueValue(statusRule, { [statusRule?.source ?? '']: status }, dataset)
      const also = alsoRule === undefined || isFree ? null : textAt(alsoRule, texts, index)
      return typeof key !== 'string' || also === undefined ? undefined : { key, also: also ?? undefined }
    },
  }
}

/** Returns whether a rule uses the text of a cell unchanged. */
function isTextOfCell({ source, transforms = [], default: fallback }: Rule): boolean {
  return source?.startsWith('/') === false && transforms.length === 0 && fallback === undefined
}

function prepare(rules: readonly Rule[], { keyField, comparedField, uniqueField, statusField }: DatasetRules) {
  return {
    rules,
    statusRule: uniqueField === null ? undefined : rules.find(({ target }) => target === statusField),
    keyRule: rules.find(({ target }) => target === keyField),
    alsoRule: rules.find(({ target }) => target === comparedField),
    salt: hash('sha256', JSON.stringify([mapperVersion, rules]), 'base64'),
  }
}

/** Returns whether the row is inactive and therefore gives up a unique value. */
function givesUpUniqueValue(statusRule: Rule | undefined, values: Values, dataset: DatasetRules): boolean {
  if (statusRule === undefined) return false
  try {
    return valueOf(statusRule, values, dataset) === dataset.inactive
  } catch (error) {
    if (error instanceof TransformError) return false
    throw error
  }
}

function textOf(rule: Rule | undefined, values: Values, dataset: DatasetRules): string | undefined {
  if (rule === undefined) return undefined
  try {
    const value = valueOf(rule, values, dataset)
    const text = typeof value === 'string' ? value.trim() : ''
    return text === '' ? undefined : text
  } catch (error) {
    if (error instanceof TransformError) return undefined
    throw error
  }
}

/** Encodes a value with its type and length, so that different lists never collide. */
function encode(value: unknown): string {
  if (typeof value === 'string') return `s${value.length}:${value}`
  if (typeof value !== 'object' || value === null) return `${typeof value}:${String(value)};`
  const text = JSON.stringify(value, (_name, member) => (typeof member === 'bigint' ? `${member}n` : member))
  return `o${text.length}:${text}`
}
