import type { DatasetRules } from '../dataset/rules.ts'
import type { SourceItem } from '../source/types.ts'
import type { Rule } from './attributes.ts'
import { columnOf } from './columns.ts'
import { createRuleFinder } from './map-row.ts'

/** Turns an item with faults into a row, unless a rule reads a faulty column. */
export function createItemReader(rules: readonly Rule[], dataset: DatasetRules): (item: SourceItem) => SourceItem {
  const rulesFor = createRuleFinder(rules, dataset)
  return (item) => {
    if (item.kind === 'row' || item.faults === undefined) return item
    const unread = new Map(item.faults.map((fault) => [fault.column, fault]))
    const values = Object.fromEntries([
      ...Object.entries(item.values ?? {}).filter(([name]) => !unread.has(name)),
      ...[...unread.keys()].map((name) => [name, undefined] as const),
    ])
    const sources = rulesFor(values).flatMap(({ source }) => (source === undefined ? [] : [columnOf(source), source]))
    const column = sources.find((source) => unread.has(source))
    const fault = column === undefined ? undefined : unread.get(column)
    if (fault === undefined) return { kind: 'row', row: item.row, values }
    const { code, message, excerpt } = fault
    const field = fault.column.slice(0, 80).toWellFormed()
    return { ...item, field, code, message, ...(excerpt === undefined ? {} : { excerpt }) }
  }
}
