import type { Connector, MappingRule } from '@postern/contracts'
import type { DatasetRules } from '../dataset/rules.ts'
import { SourceReadError } from '../source/source-read-error.ts'
import { nameOfPart } from './pointer.ts'
import { excerptOf } from './excerpt.ts'

/** Returns the columns that a table lacks. A read without them would empty a field of every row. */
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

export function columnOf(source: string): string {
  if (!source.startsWith('/')) return source
  const [, first = ''] = source.split('/', 2)
  return nameOfPart(first)
}

export function isTable(type: string): boolean {
  return type === 'csv' || type === 'sql'
}

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
  throw new SourceReadError('column_missing', message, connector.type === 'csv' ? { row: 1, field } : { field })
}
