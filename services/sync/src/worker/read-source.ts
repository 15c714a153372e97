import { collectAll, handled } from '@postern/service-kit'
import { keepCreations } from '../creation/store.ts'
import { type DatasetRules } from '../dataset/rules.ts'
import { assertColumns, isTable } from '../mapping/columns.ts'
import { type Fingerprint, createFingerprinter, createTextPrinter } from '../mapping/fingerprint.ts'
import { excerptOf } from '../mapping/excerpt.ts'
import { createMapper, read, readableKey } from '../mapping/map-row.ts'
import { createItemReader } from '../mapping/readable-item.ts'
import { type Rule, rulesInNames, rulesOfAttributes } from '../mapping/attributes.ts'
import type { SourceContext, SourceItem, SourceTexts, SourceType } from '../source/types.ts'
import { type KnownRow, KnownRows, stageKnown } from '../staging/block/store.ts'
import { type StagedError, insertErrors } from '../staging/error-store.ts'
import { type StagedRow, clearPlan, stageRows } from '../staging/store.ts'
import { openUpload } from '../upload/read.ts'
import type { Hold } from './held-run.ts'
import { createErrorKeeper } from './kept-errors.ts'

/**
 * Rows that are written at once, and bytes of them: twice as much of a source is in memory at a time, and is moved by each
 * collection of what is young.
 */
export const batchRows = 1000
const batchBytes = 4 * 1024 * 1024
/** Rows of which objects are made before what is left of them goes: some 60 MiB. */
const rowsBetweenCollections = 20_000
/** Of known rows, of which little is written. */
const batchKnown = 20_000

/** Most errors of one row that a run keeps. */
const maxErrorsARow = 50

/** Begins to plan anew. */
export async function beginStaging(hold: Hold): Promise<void> {
  await hold.step(async (tx) => {
    await clearPlan(tx, hold.run.id)
    return { status: 'fetching', counts: { ...hold.counts, fetched: 0, valid: 0, invalid: 0, applied: 0 } }
  })
}

/**
 * Reads the whole source into the staging tables, once `beginStaging` has made room there; answers how many of its rows are to be compared. Rows whose
 * hash is in `known`, which is taken out of it, are not mapped again; `isFirst`: the connector has brought none before. Throws what the source throws: then nothing of it counts.
 */
export async function stageSource(
  hold: Hold,
  source: SourceType,
  context: Omit<SourceContext<unknown>, 'upload'>,
  {
    rules,
    known: knownHashes,
    isFirst: isFirstRead,
  }: { readonly rules: DatasetRules; readonly known: Set<string> | undefined; readonly isFirst: boolean },
): Promise<number> {
  const mapping = rulesOfAttributes(rulesInNames(hold.connector.mapping, source), source.attributesOf(context.config))
  const take = createTaker(mapping, rules, knownHashes)
  const upload =
    hold.run.uploadId === null ? undefined : openUpload(async (work) => await hold.read(work), hold.run.uploadId)
  // A table has all its columns in each row. What rows have had and have no longer is found where they are compared.
  const absent = new Set(isFirstRead && !isTable(source.type) ? mapping.filter(mustBeThere) : [])
  let batch = newBatch()
  let [fetched, valid, compared] = [0, 0, 0]
  // The rows behind those that are kept are counted all the same.
  const keepErrors = createErrorKeeper()
  // The batch before is written while this one is read.
  let writing = Promise.resolve()
  const flush = async (): Promise<void> => {
    const { rows, known, errors } = batch
    const keptErrors = keepErrors(errors)
    batch = newBatch()
    const counts = { fetched, valid, invalid: fetched - valid }
    await writing
    const step = hold.step(async (tx) => {
      // Most rows are new to the universe too then; whether all are is found out later.
      const isNew = rules.isMadeInBlocks && isFirstRead
      const made = isNew ? rows.filter(({ content }) => content !== undefined) : []
      await Promise.all([
        keepCreations(tx, hold.run.id, made),
        stageRows(tx, hold.run.id, isNew ? rows.filter(({ content }) => content === undefined) : rows),
        stageKnown(tx, hold.run.id, known),
        insertErrors(tx, hold.run.id, keptErrors),
      ])
      return { counts }
    })
    writing = handled(step)
  }
  const isFull = (): boolean =>
    batch.rows.length >= batchRows || batch.known.length >= batchKnown || batch.bytes >= batchBytes
  const keep = (taken: Taken): void => {
    fetched += 1
    if (taken.kind === 'known') {
      valid += 1
      batch.known.push(taken.row)
      batch.bytes += 100
      return
    }
    compared += 1
    if (compared % rowsBetweenCollections === 0) collectAll()
    if (taken.row.content !== undefined) valid += 1
    batch.rows.push(taken.row)
    batch.errors.push(...taken.faults)
    batch.bytes += (taken.row.content?.length ?? 100) + taken.faults.length * 200
  }
  try {
    // A table without rows has columns all the same: one that has lost them is not one that has lost its rows.
    let isFirst = isTable(source.type)
    for await (const item of (source.readTexts ?? source.read)({ ...context, upload })) {
      if (item.kind === 'texts') {
        if (isFirst) assertColumns(hold.connector, rules, item.columns)
        isFirst = false
        for (let index = 0; index < item.texts.length; index += 1) {
          const taken = take.text(item, index)
          if (taken === undefined) continue
          keep(taken)
          if (isFull()) await flush()
        }
        continue
      }
      if (isFirst && item.kind === 'row') {
        assertColumns(hold.connector, rules, Object.keys(item.values))
        isFirst = false
      }
      for (const rule of absent) if (read(item.values ?? {}, rule) !== undefined) absent.delete(rule)
      keep(take.item(item))
      if (isFull()) await flush()
    }
    if (fetched > 0) batch.errors.push(...[...absent].map(absentFromAll))
    await flush()
    await writing
    return compared
  } catch (error) {
    await writing.catch(() => undefined)
    throw error
  }
}

function mustBeThere(rule: Rule): boolean {
  return rule.source !== undefined && rule.default === undefined
}

/** Each item may lack what a rule names; where all do, its name may be another. */
function absentFromAll({ target, source }: Rule): StagedError {
  const message = `no item has \`${source}\`, from which the mapping takes it: look how the source names it`
  return { row: null, key: null, field: target, code: 'field_absent', message, excerpt: null, severity: 'warning' }
}

interface Batch {
  readonly rows: StagedRow[]
  readonly known: KnownRows
  readonly errors: StagedError[]
  bytes: number
}

function newBatch(): Batch {
  return { rows: [], known: new KnownRows(), errors: [], bytes: 0 }
}

type Taken =
  | { readonly kind: 'known'; readonly row: KnownRow }
  | { readonly kind: 'new'; readonly row: StagedRow; readonly faults: readonly StagedError[] }

function createTaker(mapping: readonly Rule[], rules: DatasetRules, known: Set<string> | undefined) {
  const mapper = createMapper(mapping, rules)
  const fingerprint = createFingerprinter(mapping, rules)
  const printerOf = createTextPrinter(mapping, rules)
  const readItem = createItemReader(mapping, rules)
  const takeNew = (item: SourceItem, print: Fingerprint | undefined): Taken => ({
    kind: 'new',
    ...toStaged(item, mapper, print),
  })
  const takeItem = (found: SourceItem): Taken => {
    const item = readItem(found)
    const print = item.values === undefined ? undefined : fingerprint(item.values)
    if (item.kind === 'row' && print !== undefined && known?.delete(print.hash) === true) {
      return { kind: 'known', row: { row: item.row, key: print.key, also: print.also } }
    }
    return takeNew(item, print)
  }
  const keysOf = (item: SourceItem | undefined): Omit<Fingerprint, 'hash'> | undefined =>
    item?.values === undefined ? undefined : fingerprint(item.values)
  return {
    item: takeItem,
    /** Undefined for a text without any value. */
    text: (texts: SourceTexts, index: number): Taken | undefined => {
      const prints = printerOf(texts)
      if (prints === undefined) {
        const item = texts.at(index)
        return item === undefined ? undefined : takeItem(item)
      }
      const hash = prints.hashOf(texts.texts[index] ?? '')
      const keys = prints.keysAt(texts, index) ?? keysOf(texts.at(index))
      if (keys !== undefined && known?.delete(hash) === true) {
        return { kind: 'known', row: { row: texts.first + index, key: keys.key, also: keys.also } }
      }
      const found = texts.at(index)
      if (found === undefined) return undefined
      const item = readItem(found)
      // Of a row with too few cells nobody knows which of them is the key.
      const isRead = keys !== undefined && item.values !== undefined
      return takeNew(item, isRead ? { key: keys.key, also: keys.also, hash } : undefined)
    },
  }
}

/** What a row becomes: staged in any case, so that one that cannot be read is not taken for one that is gone. */
function toStaged(
  item: SourceItem,
  mapper: ReturnType<typeof createMapper>,
  print: Fingerprint | undefined,
): { readonly row: StagedRow; readonly faults: readonly StagedError[] } {
  if (item.kind === 'error') {
    const field = item.field === undefined ? null : excerptOf(item.field)
    const key = readableKey(print?.key)
    const fault = { row: item.row, key: excerptOf(key), field, code: item.code, message: item.message }
    return {
      row: { row: item.row, key, parent: undefined, content: undefined, hash: undefined },
      faults: [{ ...fault, excerpt: excerptOf(item.excerpt) }],
    }
  }
  const mapped = mapper(item.values)
  if (mapped.ok) {
    const { key, parent, content, warnings } = mapped
    const faults = warnings.map((warning) => ({
      ...warning,
      row: item.row,
      key: excerptOf(key),
      severity: 'warning' as const,
    }))
    return { row: { row: item.row, key, parent, content: JSON.stringify(content), hash: print?.hash }, faults }
  }
  const key = mapped.key === undefined ? null : excerptOf(mapped.key)
  return {
    row: { row: item.row, key: mapped.key, parent: undefined, content: undefined, hash: undefined },
    faults: mapped.faults
      .slice(0, maxErrorsARow)
      .map((fault) => ({ ...fault, row: item.row, key, field: excerptOf(fault.field) })),
  }
}
