import type { Statement } from './session.ts'

/** PostgreSQL prepares it once per connection. */
export function statement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values })
}

/** Throws if there is no row. */
export function getRow<Row>(rows: readonly Row[]): Row {
  const [row] = rows
  if (row === undefined) throw new Error('the query returned no row')
  return row
}
