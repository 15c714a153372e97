import { Readable } from 'node:stream'
import { type DatasetRules } from '../dataset/rules.ts'
import { missingColumns } from '../mapping/columns.ts'
import { createMapper, excerptOf } from '../mapping/map-row.ts'
import { SourceFailure } from '../source/failure.ts'
import type { SourceContext, SourceItem, SourceType } from '../source/types.ts'
import { type StagedError, type StagedRow, clearPlan, insertErrors, stageRows } from '../staging/store.ts'
import { findChunk } from '../upload/store.ts'
import type { Hold } from './held-run.ts'

/** Rows that are written at once, and bytes of them: what of a source is in memory at a time. */
const batchRows = 2000
const batchBytes = 4 * 1024 * 1024

/** Most errors that a run keeps; the rows behind them are counted all the same. */
const maxErrors = 100_000

/** Reads the whole source into the staging table. Throws what the source throws: then nothing of it counts. */
export async function stageSource(
  hold: Hold,
  source: SourceType,
  context: Omit<SourceContext<unknown>, 'upload'>,
  rules: DatasetRules,
): Promise<void> {
  const mapper = createMapper(hold.connector.mapping, rules)
  await hold.step(async (tx) => {
    await clearPlan(tx, hold.run.id)
    return { status: 'fetching', counts: { ...hold.counts, fetched: 0, valid: 0, invalid: 0, applied: 0 } }
  })
  const upload = hold.run.uploadId === null ? undefined : openUpload(hold, hold.run.uploadId)
  let rows: StagedRow[] = []
  let errors: StagedError[] = []
  let bytes = 0
  let [fetched, valid, kept] = [0, 0, 0]
  const flush = async (): Promise<void> => {
    const batch = { rows, errors: errors.slice(0, Math.max(0, maxErrors - kept)) }
    kept += batch.errors.length
    rows = []
    errors = []
    bytes = 0
    await hold.step(async (tx) => {
      await stageRows(tx, hold.run.id, batch.rows)
      await insertErrors(tx, hold.run.id, batch.errors)
      return { counts: { fetched, valid, invalid: fetched - valid } }
    })
  }
  let isFirst = isTable(source)
  for await (const item of source.read({ ...context, upload })) {
    fetched += 1
    if (isFirst && item.kind === 'row') {
      assertColumns(hold, rules, Object.keys(item.values))
      isFirst = false
    }
    const { row, faults } = take(item, mapper)
    rows.push(row)
    errors.push(...faults)
    if (row.content !== undefined) valid += 1
    bytes += row.content?.length ?? 100
    if (rows.length >= batchRows || bytes >= batchBytes) await flush()
  }
  await flush()
}

/** Whether all rows of a source have the same columns. */
function isTable({ type }: SourceType): boolean {
  return type === 'csv' || type === 'sql'
}

function assertColumns({ connector }: Hold, rules: DatasetRules, columns: readonly string[]): void {
  const missing = missingColumns(connector.mapping, rules, columns)
  if (missing.length === 0) return
  const names = excerptOf(missing.join(', '))
  const message = `the table has no column ${names}: it has ${excerptOf(columns.join(', '))}. Name the columns as before, or change the mapping of the connector`
  throw new SourceFailure('column_missing', message)
}

/** What a row becomes: staged in any case, so that one that cannot be read is not taken for one that is gone. */
export function take(
  item: SourceItem,
  mapper: ReturnType<typeof createMapper>,
): { readonly row: StagedRow; readonly faults: readonly StagedError[] } {
  if (item.kind === 'error') {
    const field = item.field === undefined ? null : excerptOf(item.field)
    const fault = { row: item.row, key: null, field, code: item.code, message: item.message }
    return {
      row: { row: item.row, key: undefined, parent: undefined, content: undefined },
      faults: [{ ...fault, excerpt: null }],
    }
  }
  const mapped = mapper(item.values)
  if (mapped.ok) {
    const { key, parent, content } = mapped
    return { row: { row: item.row, key, parent, content: JSON.stringify(content) }, faults: [] }
  }
  const key = mapped.key === undefined ? null : excerptOf(mapped.key)
  return {
    row: { row: item.row, key: mapped.key, parent: undefined, content: undefined },
    faults: mapped.faults.map((fault) => ({ ...fault, row: item.row, key, field: excerptOf(fault.field) })),
  }
}

/** The bytes of an uploaded file, part by part as they are asked for. */
function openUpload(hold: Hold, uploadId: string): Readable {
  async function* chunks(): AsyncGenerator<Buffer> {
    for (let index = 0; ; index += 1) {
      const chunk = await hold.read(async (tx) => await findChunk(tx, uploadId, index))
      if (chunk === undefined) return
      yield chunk
    }
  }
  return Readable.from(chunks(), { objectMode: false })
}
