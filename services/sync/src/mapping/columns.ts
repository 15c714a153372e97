import type { MappingRule } from '@postern/contracts'
import type { DatasetRules } from '../dataset/rules.ts'

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
      const isColumn = source !== undefined && !source.startsWith('/') && fallback === undefined
      return isColumn && !found.has(source) ? [source] : []
    })
  }
  const required = Object.entries(dataset.schema.shape).filter(([, field]) => !field.safeParse(undefined).success)
  return required.map(([name]) => name).filter((name) => !found.has(name))
}
