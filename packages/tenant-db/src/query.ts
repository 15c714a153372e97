import { Query, type QueryConfig, type QueryResultRow, types } from 'pg'

/** The text of a statement, and its values. Without values it is sent as plain text. */
export interface SentStatement {
  readonly text: string
  readonly name?: string
  readonly values?: readonly unknown[]
}

/** How many bytes the rows of a statement may have. */
export interface RowLimit {
  readonly maxBytes: number
  /** Returns whether this many more bytes may be held. */
  readonly reserve: ((bytes: number) => boolean) | undefined
}

/** Why rows of a statement were discarded. */
export type Excess = 'too-large' | 'over-share'

/** Returns a query for `client.query`. It emits `end` with its result, or `error`. */
export function createQuery<Row extends QueryResultRow>(statement: SentStatement): Query<Row> {
  return new Query<Row>(configOf(statement))
}

/** Like `createQuery`, but discards rows beyond the limit. `excess` returns whether, and why, there were such rows. */
export function createLimitedQuery<Row extends QueryResultRow>(
  statement: SentStatement,
  { maxBytes, reserve }: RowLimit,
): { readonly query: Query<Row>; readonly excess: () => Excess | undefined } {
  let bytes = 0
  let valueBytes = 0
  let excess: Excess | undefined
  const countingParser: typeof types.getTypeParser = (oid, format) => {
    const parse: (value: string) => unknown = typeParser(oid, format)
    return (value: string) => {
      valueBytes += Buffer.byteLength(value)
      return excess === undefined ? parse(value) : null
    }
  }
  const query = new Query<Row>({ ...configOf(statement), types: { getTypeParser: countingParser } })
  query.on('row', (row, result) => {
    // The length of PostgreSQL's DataRow message: 6 bytes, 4 for each column, and the values.
    const length = 6 + 4 * (result?.fields.length ?? 0) + valueBytes
    valueBytes = 0
    if (excess !== undefined) return
    bytes += length
    if (bytes > maxBytes) excess = 'too-large'
    else if (reserve?.(length) === false) excess = 'over-share'
    else result?.addRow(row)
  })
  return { query, excess: () => excess }
}

/** What pg documents and its types leave out. */
interface ExtendedConfig extends QueryConfig<unknown[]> {
  readonly queryMode?: 'extended'
}

function configOf({ text, name, values }: SentStatement): ExtendedConfig {
  if (values === undefined) return { text, name }
  // One statement a message, also without values: a second one behind a semicolon is a syntax error. The values are a
  // copy, because pg reads them later if it has to wait.
  return { text, name, values: [...values], queryMode: 'extended' }
}

const dateOid = 1082

// pg would parse a date into a Date that depends on the local time zone. It stays text: '2026-03-31'. bigint and
// numeric are text by default.
export const typeParser: typeof types.getTypeParser = (oid, format) =>
  oid === dateOid ? String : types.getTypeParser(oid, format)
