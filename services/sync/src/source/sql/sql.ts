import { SourceFailure } from '../failure.ts'
import { requireSecret } from '../http/authorize.ts'
import { isDeeper } from '../http/json-items.ts'
import {
  type SourceContext,
  type SourceItem,
  type SourceRowError,
  type SourceTexts,
  type SourceType,
  defineSourceType,
  noTexts,
} from '../types.ts'
import { type SqlRead, sqlConfigSchema } from './config.ts'
import { readMariadb } from './mariadb.ts'
import { readPostgres } from './postgres.ts'

/** A view of a database, read in one read-only transaction. */
export const sql: SourceType = defineSourceType({
  type: 'sql',
  configSchema: sqlConfigSchema,
  secretNames: ['password'],
  columnsOf: ({ columns }) => columns,
  read: readRows,
  readTexts: readSql,
})

async function* readRows(context: SourceContext<SqlRead['config']>): AsyncGenerator<SourceItem> {
  for await (const item of readSql(context)) {
    if (item.kind !== 'texts') yield item
  }
}

/** The rows, or where there are none the columns of the view: one that was changed is not one that has lost its rows. */
async function* readSql(context: SourceContext<SqlRead['config']>): AsyncGenerator<SourceItem | SourceTexts> {
  const { config, secrets, outbound, limits, signal } = context
  const password = requireSecret(secrets, 'password')
  const { address } = await outbound.resolve(config.host, signal)
  if (config.encryption === 'none' && !outbound.isListed(address)) {
    throw new SourceFailure('not_encrypted', `${config.host} is asked without encryption: set \`encryption\` to tls`)
  }
  let columns: readonly string[] = []
  const onColumns = (names: readonly string[]): void => void (columns = names)
  const read: SqlRead = { config, password, address, limits, signal, onColumns }
  let row = 0
  for await (const values of config.engine === 'mariadb' ? readMariadb(read) : readPostgres(read)) {
    row++
    const deep = Object.keys(values).filter((field) => isDeeper(values[field], limits.maxDepth - 1))
    if (deep.length > 0) {
      for (const field of deep) delete values[field]
      yield { ...tooDeep(row, deep[0] ?? '', limits.maxDepth), values }
      continue
    }
    const lengths = Object.entries(values).map(([field, value]) => ({ field, length: lengthOf(value) }))
    const long = lengths.find(({ length }) => length > limits.maxValueLength)
    yield long === undefined ? { kind: 'row', row, values } : { ...tooLong(row, long, limits.maxValueLength), values }
  }
  if (row === 0) yield noTexts(columns)
}

function tooDeep(row: number, field: string, max: number): SourceRowError {
  return { kind: 'error', row, field, code: 'nested_too_deep', message: `is nested deeper than ${max} levels` }
}

function tooLong(
  row: number,
  { field, length }: { readonly field: string; readonly length: number },
  max: number,
): SourceRowError {
  const message = `has ${length} characters; at most ${max} are read`
  return { kind: 'error', row, field, code: 'value_too_long', message }
}

function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  return typeof value === 'object' && value !== null ? JSON.stringify(value).length : 8
}
