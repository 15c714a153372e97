import { setImmediate } from 'node:timers/promises'
import { type ImportRow, maxImportHashes, rowHashBytes } from '@postern/contracts/internal'
import { suppressUnhandledRejection } from '@postern/service-kit'
import type { DatasetRules } from '../dataset/rules.ts'
import type { Imports } from '../import/imports.ts'
import { type Rule, rulesInNames, rulesOfAttributes } from '../mapping/attributes.ts'
import { assertColumns, isTable } from '../mapping/columns.ts'
import { excerptOf } from '../mapping/excerpt.ts'
import { createFingerprinter, createTextPrinter } from '../mapping/fingerprint.ts'
import { createMapper, read, readableKey } from '../mapping/map-row.ts'
import { createItemReader } from '../mapping/readable-item.ts'
import { type RowError, deleteErrors, insertErrors } from '../run/error-store.ts'
import type { SourceContext, SourceItem, SourceRow, SourceRowError, SourceTexts, SourceType } from '../source/types.ts'
import { openUpload } from '../upload/read.ts'
import type { Hold } from './held-run.ts'
import { createErrorKeeper } from './kept-errors.ts'

/** Limits of a request. Up to two batches are in memory. */
const batchRows = 1000
const batchBytes = 4 * 1024 * 1024

/** Reading from memory never lets the event loop turn, and a batch is sent only when it does. */
const rowsATurn = 100

/** The most errors of one row that a run keeps. */
const maxErrorsARow = 50

/** Begins an import, and discards an earlier attempt. Returns how many rows the connector delivered before. */
export async function beginStaging(hold: Hold, imports: Imports): Promise<number> {
  const { run, connector } = hold
  const known = await imports.begin(await hold.importAttempt(), connector, run.startedAt)
  await hold.step(async (tx) => {
    await deleteErrors(tx, run.id)
    return { status: 'fetching', counts: { ...hold.counts, fetched: 0, valid: 0, invalid: 0, applied: 0 } }
  })
  return known
}

/** Returns the hashes of rows that are stored as delivered. Each takes about 60 bytes of memory. */
export async function listHashes(hold: Hold, imports: Imports): Promise<Set<string>> {
  const known = new Set<string>()
  for (let after: string | null = ''; after !== null;) {
    const page = await imports.hashes(await hold.importAttempt(), after)
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

export interface Staged {
  readonly fetched: number
  /** Rows that were not sent, because their hash is known. */
  readonly unsent: number
}

/** Reads the whole source and sends its rows to the universe. Throws an error of the source; then nothing is changed. */
export async function stageSource(
  hold: Hold,
  imports: Imports,
  source: SourceType,
  context: Omit<SourceContext<unknown>, 'upload'>,
  { rules, known, isFirst: isFirstRun }: Staging,
): Promise<Staged> {
  const mapping = rulesOfAttributes(rulesInNames(hold.connector.mapping, source), source.attributesOf(context.config))
  const take = createTaker(mapping, rules, known)
  const upload =
    hold.run.uploadId === null ? undefined : openUpload(async (work) => await hold.read(work), hold.run.uploadId)
  // Only items can lack a field. For later runs, the comparison finds fields that became empty.
  const absent = new Set(isFirstRun && !isTable(source.type) ? mapping.filter(mustBeThere) : [])
  let batch = newBatch()
  let [fetched, unsent, valid] = [0, 0, 0]
  const keepErrors = createErrorKeeper()
  // The previous batch is sent while this one is read.
  let sending = Promise.resolve()
  const flush = async (): Promise<void> => {
    const { rows, errors } = batch
    const keptErrors = keepErrors(errors)
    batch = newBatch()
    const counts = { fetched, valid, invalid: fetched - valid }
    await sending
    sending = suppressUnhandledRejection(
      (async () => {
        if (rows.length > 0) await imports.stage(await hold.importAttempt(), rows)
        await hold.step(async (tx) => {
          await insertErrors(tx, hold.run.id, keptErrors)
          return { counts }
        })
      })(),
    )
  }
  const keep = async (taken: Taken): Promise<void> => {
    fetched += 1
    if (taken === 'known') {
      unsent += 1
      valid += 1
      batch.unsent += 1
    } else {
      if (taken.row.content !== undefined) valid += 1
      batch.rows.push(taken.row)
      batch.errors.push(...taken.errors)
      batch.bytes += taken.bytes + taken.errors.length * 200
    }
    if (fetched % rowsATurn === 0) await setImmediate()
    if (batch.rows.length >= batchRows || batch.unsent >= maxUnsent || batch.bytes >= batchBytes) await flush()
  }
  try {
    // A table without rows has columns nevertheless.
    let isFirst = isTable(source.type)
    for await (const item of (source.readTexts ?? source.read)({ ...context, upload })) {
      if (item.kind === 'texts') {
        if (isFirst) assertColumns(hold.connector, rules, item.columns)
        isFirst = false
        for (let index = 0; index < item.texts.length; index += 1) {
          const taken = take.text(item, index)
          if (taken !== undefined) await keep(taken)
        }
        continue
      }
      if (isFirst && item.kind === 'row') {
        assertColumns(hold.connector, rules, Object.keys(item.values))
        isFirst = false
      }
      for (const rule of absent) if (read(item.values ?? {}, rule) !== undefined) absent.delete(rule)
      await keep(take.item(item))
    }
    if (fetched > 0) batch.errors.push(...[...absent].map(absentFromAll))
    await flush()
    await sending
    return { fetched, unsent }
  } catch (error) {
    await sending.catch(() => undefined)
    throw error
  }
}

/** Sends the hashes that no row of the source has. */
export async function sendGone(hold: Hold, imports: Imports, left: ReadonlySet<string>): Promise<void> {
  let some: string[] = []
  const send = async (): Promise<void> => {
    if (some.length > 0) await imports.stage(await hold.importAttempt(), [], Buffer.from(some.join(''), 'latin1'))
    some = []
  }
  for (const hash of left) {
    some.push(hash)
    if (some.length >= maxImportHashes) await send()
  }
  await send()
}

function mustBeThere(rule: Rule): boolean {
  return rule.source !== undefined && rule.default === undefined
}

/** An item may lack a field, but if all do, the field probably has another name. */
function absentFromAll({ target, source }: Rule): RowError {
  const message = `no item has \`${source}\`, from which the mapping takes it: look how the source names it`
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

type Taken = 'known' | NewRow

function createTaker(mapping: readonly Rule[], rules: DatasetRules, known: Set<string>) {
  const mapper = createMapper(mapping, rules)
  const fingerprint = createFingerprinter(mapping, rules)
  const printerOf = createTextPrinter(mapping, rules)
  const readItem = createItemReader(mapping, rules)
  const takeItem = (found: SourceItem, textHash?: string): Taken => {
    const item = readItem(found)
    if (item.kind === 'error') return toInvalidRow(item, item.values && fingerprint(item.values)?.key)
    const hash = textHash ?? fingerprint(item.values)?.hash
    return hash !== undefined && known.delete(hash) ? 'known' : toRow(item, mapper, hash)
  }
  return {
    item: (item: SourceItem): Taken => takeItem(item),
    /** Undefined for a text without any value. */
    text: (texts: SourceTexts, index: number): Taken | undefined => {
      const hash = printerOf(texts)?.(texts.texts[index] ?? '')
      if (hash !== undefined && known.delete(hash)) return 'known'
      const item = texts.at(index)
      return item === undefined ? undefined : takeItem(item, hash)
    },
  }
}

/** Invalid rows are sent too, so that they do not count as missing. */
function toInvalidRow({ row, ...error }: SourceRowError, printedKey: string | undefined): NewRow {
  const key = readableKey(printedKey)
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
