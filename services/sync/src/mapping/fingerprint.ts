import { hash } from 'node:crypto'
import type { MappingRule } from '@postern/contracts'
import type { DatasetRules } from '../dataset/rules.ts'
import { TransformRefused } from './transform.ts'
import { type Values, createRuleFinder, read, valueOf } from './map-row.ts'

/** How a row is known again without being mapped. */
export interface Fingerprint {
  /** 16 bytes: over what the mapping reads of the row, and over the mapping. */
  readonly hash: Buffer
  readonly key: string
  /** The value of the dataset's `comparedField`. */
  readonly also: string | undefined
}

/**
 * Part of every hash. To be raised with each change of the code that makes another row of the same values: what was taken in
 * before is then looked at again.
 */
const mapperVersion = 1
const hashBytes = 16

/** Tells rows apart by what a mapping reads of them. Undefined for a row without a key that can be read. */
export function createFingerprinter(
  rules: readonly MappingRule[],
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
    for (const { source } of effective) text += source === undefined ? '' : encode(read(values, source))
    const digest = hash('sha256', text, 'buffer').subarray(0, hashBytes)
    return { hash: digest, key, also: textOf(prepared.alsoRule, values, dataset) }
  }
}

function prepare(rules: readonly MappingRule[], { keyField, comparedField }: DatasetRules) {
  return {
    rules,
    keyRule: rules.find(({ target }) => target === keyField),
    alsoRule: rules.find(({ target }) => target === comparedField),
    salt: hash('sha256', JSON.stringify([mapperVersion, rules]), 'base64'),
  }
}

function textOf(rule: MappingRule | undefined, values: Values, dataset: DatasetRules): string | undefined {
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
