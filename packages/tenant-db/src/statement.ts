import type { Statement } from './session.ts'

/** Binds values to a named statement, which PostgreSQL prepares once per connection. */
export function statement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values })
}

/** Returns the first row of a query that always has one. Throws if it has none. */
export function getRow<Row>(rows: readonly Row[]): Row {
  const [row] = rows
  if (row === undefined) throw new Error('the query returned no row')
  return row
}
