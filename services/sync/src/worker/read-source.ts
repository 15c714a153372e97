import { setImmediate } from 'node:timers/promises'
import { type ImportRow, maxImportHashes, rowHashBytes } from '@postern/contracts/internal'
import { suppressUnhandledRejection } from '@postern/service-kit'
import type { DatasetRules } from '../dataset/rules.ts'
import type { Imports } from '../import/imports.ts'
import { type Rule, rulesInNames, rulesOfAttributes } from '../mapping/attributes.ts'
import { assertColumns, isTable } from '../mapping/columns.ts'
import { excerptOf } from '../mapping/excerpt.ts'
import { createFingerprinter, createTextHasher } from '../mapping/fingerprint.ts'
import { createMapper, read, readableKey } from '../mapping/map-row.ts'
import { createItemReader } from '../mapping/readable-item.ts'
import { type RowError, deleteErrors, insertErrors } from '../run/error-store.ts'
import type { SourceContext, SourceItem, SourceRow, SourceRowError, SourceTexts, SourceType } from '../source/types.ts'
import { openUpload } from '../upload/read.ts'
import type { RunLease } from './run-lease.ts'
import { createErrorFilter } from './error-filter.ts'

/** Limits of a request. Up to two batches are in memory. */
const batchRows = 1000
const batchBytes = 4 * 1024 * 1024

/** Rows after which the event loop may run, because rows in memory would block it, and a batch is sent only when it runs. */
const rowsPerTurn = 100

/** How many errors of one row a run keeps. */
const maxErrorsARow = 50

/** Begins an import, and discards an earlier attempt. Returns how many rows the connector delivered before. */
export async function beginStaging(lease: RunLease, imports: Imports): Promise<number> {
  const { run, connector } = lease
  const known = await imports.begin(await lease.importAttempt(), connector, run.startedAt)
  await lease.commitStep(async (tx) => {
    await deleteErrors(tx, run.id)
    return { status: 'fetching', counts: { ...lease.counts, fetched: 0, valid: 0, invalid: 0, applied: 0 } }
  })
  return known
}

/** Returns the hashes of rows that are stored as delivered. Each takes about 60 bytes of memory. */
export async function listHashes(lease: RunLease, imports: Imports): Promise<Set<string>> {
  const known = new Set<string>()
  for (let after: string | null = ''; after !== null;) {
    const page = await imports.hashes(await lease.importAttempt(), after)
    const { hashes } = page
    for (let at = 0; at < hashes.length; at += rowHashBytes) known.add(hashes.toString('latin1', at, at + rowHashBytes))
    after = page.last
  }
  return known
}

interface Staging {
  readonly rules: DatasetRules
  /** Hashes of rows that need not be sent. Reading a row removes its hash. */
  readonly known: Set<string>
  /** Whether the connector has brought no row before. */
  readonly isFirst: boolean
}

export interface StagedCounts {
  readonly fetched: number
  /** Rows that were not sent, because their hash is known. */
  readonly unsent: number
}

/** Reads the whole source and sends its rows to the universe. Throws an error of the source; then nothing is changed. */
export async function stageSource(
  lease: RunLease,
  imports: Imports,
  source: SourceType,
  context: Omit<SourceContext<unknown>, 'upload'>,
  { rules, known, isFirst: isFirstRun }: Staging,
): Promise<StagedCounts> {
  const mapping = rulesOfAttributes(rulesInNames(lease.connector.mapping, source), source.attributesOf(context.config))
  const reader = createRowReader(mapping, rules, known)
  const upload =
    lease.run.uploadId === null ? undefined : openUpload(async (work) => await lease.read(work), lease.run.uploadId)
  // Only items can lack a field. For later runs, the comparison finds fields that became empty.
  const absent = new Set(isFirstRun && !isTable(source.type) ? mapping.filter(isRequired) : [])
  let batch = newBatch()
  let [fetched, unsent, valid] = [0, 0, 0]
  const filterErrors = createErrorFilter()
  // The previous batch is sent while this one is read.
  let sending = Promise.resolve()
  const flush = async (): Promise<void> => {
    const { rows, errors } = batch
    const kept = filterErrors(errors)
    batch = newBatch()
    const counts = { fetched, valid, invalid: fetched - valid }
    await sending
    sending = suppressUnhandledRejection(
      (async () => {
        if (rows.length > 0) await imports.stage(await lease.importAttempt(), rows)
        await lease.commitStep(async (tx) => {
          await insertErrors(tx, lease.run.id, kept)
          return { counts }
        })
      })(),
    )
  }
  const addRow = async (staged: StagedRow): Promise<void> => {
    fetched += 1
    if (staged === 'known') {
      unsent += 1
      valid += 1
      batch.unsent += 1
    } else {
      if (staged.row.content !== undefined) valid += 1
      batch.rows.push(staged.row)
      batch.errors.push(...staged.errors)
      batch.bytes += staged.bytes + staged.errors.length * 200
    }
    if (fetched % rowsPerTurn === 0) await setImmediate()
    if (batch.rows.length >= batchRows || batch.unsent >= maxUnsent || batch.bytes >= batchBytes) await flush()
  }
  try {
    // A table without rows has columns nevertheless.
    let isFirst = isTable(source.type)
    for await (const item of source.read({ ...context, upload })) {
      if (item.kind === 'texts') {
        if (isFirst) assertColumns(lease.connector, rules, item.columns)
        isFirst = false
        for (let index = 0; index < item.texts.length; index += 1) {
          const staged = reader.text(item, index)
          if (staged !== undefined) await addRow(staged)
        }
        continue
      }
      if (isFirst && item.kind === 'row') {
        assertColumns(lease.connector, rules, Object.keys(item.values))
        isFirst = false
      }
      for (const rule of absent) if (read(item.values ?? {}, rule) !== undefined) absent.delete(rule)
      await addRow(reader.item(item))
    }
    if (fetched > 0) batch.errors.push(...[...absent].map(fieldAbsentWarning))
    await flush()
    await sending
    return { fetched, unsent }
  } catch (error) {
    await sending.catch(() => undefined)
    throw error
  }
}

export async function sendUnseenHashes(lease: RunLease, imports: Imports, left: ReadonlySet<string>): Promise<void> {
  let some: string[] = []
  const send = async (): Promise<void> => {
    if (some.length > 0) await imports.stage(await lease.importAttempt(), [], Buffer.from(some.join(''), 'latin1'))
    some = []
  }
  for (const hash of left) {
    some.push(hash)
    if (some.length >= maxImportHashes) await send()
  }
  await send()
}

function isRequired(rule: Rule): boolean {
  return rule.source !== undefined && rule.default === undefined
}

/** An item may lack a field, but if all do, the field probably has another name. */
function fieldAbsentWarning({ target, source }: Rule): RowError {
  const message = `No item has \`${source}\`, which the mapping reads. Check its name in the source.`
  return { row: null, key: null, field: target, code: 'field_absent', message, excerpt: null, severity: 'warning' }
}

/** Unsent rows after which progress is recorded. */
const maxUnsent = 20_000

interface Batch {
  readonly rows: ImportRow[]
  readonly errors: RowError[]
  unsent: number
  bytes: number
}

function newBatch(): Batch {
  return { rows: [], errors: [], unsent: 0, bytes: 0 }
}

interface NewRow {
  readonly row: ImportRow
  readonly errors: readonly RowError[]
  readonly bytes: number
}

type StagedRow = 'known' | NewRow

function createRowReader(mapping: readonly Rule[], rules: DatasetRules, known: Set<string>) {
  const mapper = createMapper(mapping, rules)
  const fingerprint = createFingerprinter(mapping, rules)
  const hasherOf = createTextHasher(mapping, rules)
  const readItem = createItemReader(mapping, rules)
  const readOne = (found: SourceItem, textHash?: string): StagedRow => {
    const item = readItem(found)
    if (item.kind === 'error') return toInvalidRow(item, item.values && fingerprint(item.values)?.key)
    const hash = textHash ?? fingerprint(item.values)?.hash
    return hash !== undefined && known.delete(hash) ? 'known' : toRow(item, mapper, hash)
  }
  return {
    item: (item: SourceItem): StagedRow => readOne(item),
    /** Undefined for a text without any value. */
    text: (texts: SourceTexts, index: number): StagedRow | undefined => {
      const hash = hasherOf(texts)?.(texts.texts[index] ?? '')
      if (hash !== undefined && known.delete(hash)) return 'known'
      const item = texts.at(index)
      return item === undefined ? undefined : readOne(item, hash)
    },
  }
}

/** Invalid rows are sent too, so that they do not count as missing. */
function toInvalidRow({ row, ...error }: SourceRowError, givenKey: string | undefined): NewRow {
  const key = readableKey(givenKey)
  const { code, message } = error
  const field = error.field === undefined ? null : excerptOf(error.field)
  const described = { row, key: excerptOf(key), field, code, message, excerpt: excerptOf(error.excerpt) }
  return { row: { row, ...(key === undefined ? {} : { key }) }, errors: [described], bytes: 100 }
}

function toRow({ row, values }: SourceRow, mapper: ReturnType<typeof createMapper>, hash: string | undefined): NewRow {
  const mapped = mapper(values)
  if (mapped.ok) {
    const { key, parent, warnings } = mapped
    const content = JSON.stringify(mapped.content)
    const errors = warnings.map((warning) => ({ ...warning, row, key: excerptOf(key), severity: 'warning' as const }))
    const sent = {
      row,
      key,
      content,
      ...(parent === undefined ? {} : { parent }),
      ...(hash === undefined ? {} : { hash: Buffer.from(hash, 'latin1').toString('base64') }),
    }
    return { row: sent, errors, bytes: content.length }
  }
  const key = mapped.key === undefined ? null : excerptOf(mapped.key)
  return {
    row: { row, ...(mapped.key === undefined ? {} : { key: mapped.key }) },
    errors: mapped.faults
      .slice(0, maxErrorsARow)
      .map((fault) => ({ ...fault, row, key, field: excerptOf(fault.field) })),
    bytes: 100,
  }
}
