import { hash } from 'node:crypto'
import type { DatasetRules } from '../dataset/rules.ts'
import { TransformRefused } from './transform.ts'
import type { Rule } from './attributes.ts'
import type { SourceTexts } from '../source/types.ts'
import { type Values, createRuleFinder, read, valueOf } from './map-row.ts'

/** How a row is known again without being mapped. */
export interface Fingerprint {
  /** 16 bytes, each a character: over what the mapping reads of the row, and over the mapping. */
  readonly hash: string
  readonly key: string
  /** The value of the dataset's `comparedField`; undefined if an inactive row gives it up. */
  readonly also: string | undefined
}

/**
 * Part of every hash. To be raised with each change of the code that makes another row of the same values: what was taken in
 * before is then looked at again.
 */
const mapperVersion = 3
/** Of a hash. */
export const hashBytes = 16

/** Tells rows apart by what a mapping reads of them. Undefined for a row without a key that can be read. */
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
      also: isGivenUp(prepared.statusRule, values, dataset) ? undefined : textOf(prepared.alsoRule, values, dataset),
    }
  }
}

/** As a Fingerprint, of the text of a row. */
export interface TextPrints {
  hashOf(text: string): string
  /** What else is to be known of the row of that place; undefined where it has to be read for that. */
  keysAt(texts: SourceTexts, index: number): Pick<Fingerprint, 'key' | 'also'> | undefined
}

/**
 * Tells the rows of tables apart by their texts, which costs a fraction of reading them. Undefined for a table of which the
 * mapping does not read every column: what it leaves out makes no other row.
 */
export function createTextPrinter(
  rules: readonly Rule[],
  dataset: DatasetRules,
): (table: Table) => TextPrints | undefined {
  let made: { readonly form: string; readonly prints: TextPrints | undefined } | undefined
  return (table) => {
    const { form } = table
    if (made?.form !== form) made = { form, prints: printsOf(rules, dataset, table) }
    return made.prints
  }
}

type Table = Pick<SourceTexts, 'columns' | 'form' | 'isWhole'>

function printsOf(
  rules: readonly Rule[],
  dataset: DatasetRules,
  { columns, form, isWhole }: Table,
): TextPrints | undefined {
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
      // The caller reads the row then.
      if (statusRule?.source !== undefined && status === undefined) return undefined
      const isFree = isGivenUp(statusRule, { [statusRule?.source ?? '']: status }, dataset)
      const also = alsoRule === undefined || isFree ? null : textAt(alsoRule, texts, index)
      return typeof key !== 'string' || also === undefined ? undefined : { key, also: also ?? undefined }
    },
  }
}

/** Whether what a rule makes of a cell is the text of it: of fields that hold texts, which keys are. */
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

/** Whether the row is inactive, and so does not keep a value that only one row can have. */
function isGivenUp(statusRule: Rule | undefined, values: Values, dataset: DatasetRules): boolean {
  if (statusRule === undefined) return false
  try {
    return valueOf(statusRule, values, dataset) === dataset.inactive
  } catch (error) {
    if (error instanceof TransformRefused) return false
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
    if (error instanceof TransformRefused) return undefined
    throw error
  }
}

/** Each value with its kind and its length, so that no two lists of values look alike. */
function encode(value: unknown): string {
  if (typeof value === 'string') return `s${value.length}:${value}`
  if (typeof value !== 'object' || value === null) return `${typeof value}:${String(value)};`
  const text = JSON.stringify(value, (_name, member) => (typeof member === 'bigint' ? `${member}n` : member))
  return `o${text.length}:${text}`
}
