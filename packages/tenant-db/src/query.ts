import { Query, type QueryConfig, type QueryResultRow, types } from 'pg'

export interface SentStatement {
  readonly text: string
  readonly name?: string
  readonly values?: readonly unknown[]
}

export interface RowLimit {
  readonly maxBytes: number
  readonly reserve: ((bytes: number) => boolean) | undefined
}

export type ExceededLimit = 'too-large' | 'over-share'

/** Emits `end` with its result, or `error`. */
export function createQuery<Row extends QueryResultRow>(statement: SentStatement): Query<Row> {
  return new Query<Row>(configOf(statement))
}

/** `excess` returns why rows were discarded. */
export function createLimitedQuery<Row extends QueryResultRow>(
  statement: SentStatement,
  { maxBytes, reserve }: RowLimit,
): { readonly query: Query<Row>; readonly excess: () => ExceededLimit | undefined } {
  let bytes = 0
  let valueBytes = 0
  let excess: ExceededLimit | undefined
  const countingParser: typeof types.getTypeParser = (oid, format) => {
    const parse: (value: string) => unknown = typeParser(oid, format)
    return (value: string) => {
      valueBytes += Buffer.byteLength(value)
      return excess === undefined ? parse(value) : null
    }
  }
  const query = new Query<Row>({ ...configOf(statement), types: { getTypeParser: countingParser } })
  query.on('row', (row, result) => {
    // A DataRow message has 6 bytes, 4 per column, and the values.
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

/** pg documents `queryMode`, but its types lack it. */
interface ExtendedConfig extends QueryConfig<unknown[]> {
  readonly queryMode?: 'extended'
}

function configOf({ text, name, values }: SentStatement): ExtendedConfig {
  if (values === undefined) return { text, name }
  // An extended message is one statement, so a second one behind a semicolon is a syntax error. pg may read the values
  // later.
  return { text, name, values: [...values], queryMode: 'extended' }
}

const dateOid = 1082

// A Date would depend on the local time zone, so dates stay text. bigint and numeric are text by default.
export const typeParser: typeof types.getTypeParser = (oid, format) =>
  oid === dateOid ? String : types.getTypeParser(oid, format)
