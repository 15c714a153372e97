import { hash } from 'node:crypto'
import { rowHashBytes } from '@postern/contracts/internal'
import type { DatasetRules } from '../dataset/rules.ts'
import { TransformError } from './transform.ts'
import type { Rule } from './attributes.ts'
import type { SourceTexts } from '../source/types.ts'
import { type Values, createRuleFinder, read, valueOf } from './map-row.ts'

export interface Fingerprint {
  /** 16 bytes, one per character, over the mapping and the values that it reads. */
  readonly hash: string
  readonly key: string
}

/** Part of every hash. Increase it if a change maps the same values differently. */
const mapperVersion = 3

/** Fingerprints rows by the values that the mapping reads; undefined for a row without a readable key. */
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
    return { hash: hash('sha256', text, 'binary').slice(0, rowHashBytes), key }
  }
}

/** Hashes the texts of rows, which is much faster than parsing them. Undefined if the mapping does not read every column. */
export function createTextHasher(
  rules: readonly Rule[],
  dataset: DatasetRules,
): (table: Table) => ((text: string) => string) | undefined {
  let made: { readonly form: string; readonly hashText: ((text: string) => string) | undefined } | undefined
  return (table) => {
    const { form } = table
    if (made?.form !== form) made = { form, hashText: hasherOf(rules, dataset, table) }
    return made.hashText
  }
}

type Table = Pick<SourceTexts, 'columns' | 'form' | 'isWhole'>

function hasherOf(
  rules: readonly Rule[],
  dataset: DatasetRules,
  { columns, form, isWhole }: Table,
): ((text: string) => string) | undefined {
  const effective = createRuleFinder(rules, dataset)(Object.fromEntries(columns.map((name) => [name, ''])))
  const { keyRule, salt } = prepare(effective, dataset)
  const sources = new Set(effective.map(({ source }) => source))
  if (!isWhole || keyRule?.source === undefined || columns.some((name) => !sources.has(name))) return undefined
  const tableSalt = hash('sha256', JSON.stringify(['text', salt, form]), 'base64')
  return (text) => hash('sha256', tableSalt + text, 'binary').slice(0, rowHashBytes)
}

function prepare(rules: readonly Rule[], { keyField }: DatasetRules) {
  return {
    rules,
    keyRule: rules.find(({ target }) => target === keyField),
    salt: hash('sha256', JSON.stringify([mapperVersion, rules]), 'base64'),
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
