import { SourceReadError } from '../source-read-error.ts'
import { requireSecret } from '../http/authorize.ts'
import { isDeeper } from '../http/json-items.ts'
import {
  type ColumnFault,
  type SourceContext,
  type SourceItem,
  type SourceLimits,
  type SourceTexts,
  type SourceType,
  defineSourceType,
  emptyTable,
  toRowOrError,
} from '../types.ts'
import { type SqlRead, sqlConfigSchema } from './config.ts'
import { readMariadb } from './mariadb.ts'
import { readPostgres } from './postgres.ts'

export const sql: SourceType = defineSourceType({
  type: 'sql',
  configSchema: sqlConfigSchema,
  secretNames: ['password'],
  columnsOf: ({ columns }) => columns,
  read: readSql,
})

/** Yields the columns of an empty view, so that a changed view differs from one without rows. */
async function* readSql(context: SourceContext<SqlRead['config']>): AsyncGenerator<SourceItem | SourceTexts> {
  const { config, secrets, outbound, limits, signal } = context
  const password = requireSecret(secrets, 'password')
  const { address } = await outbound.resolve(config.host, signal)
  if (config.encryption === 'none' && !outbound.isListed(address)) {
    throw new SourceReadError(
      'not_encrypted',
      `the connection to ${config.host} would be unencrypted: set \`encryption\` to tls`,
    )
  }
  let columns: readonly string[] = []
  const onColumns = (names: readonly string[]): void => void (columns = names)
  const read: SqlRead = { config, password, address, limits, signal, onColumns }
  let row = 0
  for await (const values of config.engine === 'mariadb' ? readMariadb(read) : readPostgres(read)) {
    row++
    const faults = Object.entries(values).flatMap(([column, value]) => findFault(column, value, limits) ?? [])
    for (const { column, code } of faults) if (code === 'nested_too_deep') delete values[column]
    yield toRowOrError(row, values, faults)
  }
  if (row === 0) yield emptyTable(columns)
}

function findFault(column: string, value: unknown, limits: SourceLimits): ColumnFault | undefined {
  const { maxDepth, maxValueLength } = limits
  if (isDeeper(value, maxDepth - 1)) {
    return { column, code: 'nested_too_deep', message: `is nested deeper than ${maxDepth} levels` }
  }
  const length = lengthOf(value)
  if (length <= maxValueLength) return undefined
  return { column, code: 'value_too_long', message: `has ${length} characters; at most ${maxValueLength} are read` }
}

function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  return typeof value === 'object' && value !== null ? JSON.stringify(value).length : 8
}
