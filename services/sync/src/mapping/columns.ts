import type { Connector, MappingRule } from '@postern/contracts'
import type { DatasetRules } from '../dataset/rules.ts'
import { SourceFailure } from '../source/failure.ts'
import { nameOfPart } from './pointer.ts'
import { excerptOf } from './excerpt.ts'

/**
 * Columns that a table would have to have: those that rules name, and without rules those of fields that must be given. A
 * table that lacks one has been changed: read all the same, it would empty a field of every row.
 */
export function missingColumns(
  rules: readonly MappingRule[],
  dataset: DatasetRules,
  columns: readonly string[],
): readonly string[] {
  const found = new Set(columns)
  if (rules.length > 0) {
    return rules.flatMap(({ source, default: fallback }) => {
      if (source === undefined || fallback !== undefined) return []
      const column = columnOf(source)
      return found.has(column) ? [] : [column]
    })
  }
  const required = Object.entries(dataset.schema.shape).filter(([, field]) => !field.safeParse(undefined).success)
  return required.map(([name]) => name).filter((name) => !found.has(name))
}

/** The column that a source is, or that it is a place within. */
export function columnOf(source: string): string {
  if (!source.startsWith('/')) return source
  const [, first = ''] = source.split('/', 2)
  return nameOfPart(first)
}

/** Whether all rows of a source have the same columns. */
export function isTable(type: string): boolean {
  return type === 'csv' || type === 'sql'
}

/** Throws SourceFailure where a table lacks a column that it would have to have. */
export function assertColumns(
  connector: Pick<Connector, 'mapping' | 'type'>,
  rules: DatasetRules,
  columns: readonly string[],
): void {
  const missing = missingColumns(connector.mapping, rules, columns)
  if (missing.length === 0) return
  const names = excerptOf(missing.join(', '))
  const message = `the table has no column ${names}: it has ${excerptOf(columns.join(', '))}. Name the columns as before, or change the mapping of the connector`
  const field = missing[0] ?? names ?? ''
  throw new SourceFailure('column_missing', message, connector.type === 'csv' ? { row: 1, field } : { field })
}
