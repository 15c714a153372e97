import { text } from 'node:stream/consumers'
import { Readable } from 'node:stream'
import { type Entry, type ZipFile, fromBufferPromise } from 'yauzl'
import { findBinaryFormat } from '../csv/other-formats.ts'
import { SourceReadError } from '../source-read-error.ts'
import { brokenWorkbookError, readXml } from './read-xml.ts'

const mebibyte = 1024 * 1024

/** The unpacked size of one part. Small parts are workbook, relations and styles. */
const maxPartBytes = { sheet: 1024 * mebibyte, strings: 128 * mebibyte, small: 16 * mebibyte }
const maxParts = 10_000
/** Sheets shrink to a tenth or twentieth. */
const maxRatio = 200
const ratioCountsFrom = 8 * mebibyte

type PartSize = keyof typeof maxPartBytes

export interface Sheet {
  readonly name: string
  readonly path: string
  readonly isHidden: boolean
}

export interface Workbook {
  readonly sheets: readonly Sheet[]
  /** Days count from 1904 instead of 1900. */
  readonly is1904: boolean
  readonly stringsPath: string | undefined
  readonly stylesPath: string | undefined
  /** Throws a SourceReadError if the part is missing or unpacks to too much. */
  openPart(path: string, size: PartSize): AsyncGenerator<Uint8Array>
}

/** Returns whether the bytes begin a ZIP archive, such as a workbook. */
export function isZip(start: Uint8Array): boolean {
  return Buffer.from(start.buffer, start.byteOffset, Math.min(4, start.length)).toString('latin1') === 'PK\u0003\u0004'
}

/** Throws a SourceReadError that names the kind of file if it is not an Excel workbook (ECMA-376) without macros. */
export async function openWorkbook(file: Buffer): Promise<Workbook> {
  const { zip, entries } = await listEntries(file)
  const openPart = (path: string, size: PartSize): AsyncGenerator<Uint8Array> => unpack(zip, entries, path, size)
  const types = entries.has('[content_types].xml') ? await contentTypes(openPart('[Content_Types].xml', 'small')) : ''
  assertWorkbook(file, types, [...entries.keys()])
  const root = await relationsOf(openPart, '')
  const path = [...root.values()].find(({ type }) => type === 'officeDocument')?.path ?? 'xl/workbook.xml'
  const relations = await relationsOf(openPart, path)
  const pathOf = (wanted: string): string | undefined =>
    [...relations.values()].find(({ type, path: found }) => type === wanted && entries.has(found.toLowerCase()))?.path
  const sheets: Sheet[] = []
  let is1904 = false
  await readXml(openPart(path, 'small'), {
    open: (name, { name: title = '', id = '', state, date1904 }) => {
      if (name === 'workbookPr') is1904 = date1904 === '1' || date1904 === 'true'
      const relation = name === 'sheet' ? relations.get(id) : undefined
      if (relation?.type !== 'worksheet') return
      sheets.push({ name: title, path: relation.path, isHidden: state === 'hidden' || state === 'veryHidden' })
    },
  })
  return { sheets, is1904, stringsPath: pathOf('sharedStrings'), stylesPath: pathOf('styles'), openPart }
}

interface Archive {
  readonly zip: ZipFile
  /** By path in lower case (ECMA-376 part 2, section 6.2.2.3). */
  readonly entries: ReadonlyMap<string, Entry>
}

async function listEntries(file: Buffer): Promise<Archive> {
  const entries = new Map<string, Entry>()
  try {
    const zip = await fromBufferPromise(file, { lazyEntries: true, autoClose: false })
    if (zip.entryCount > maxParts) throw tooLargeError()
    for await (const entry of zip.eachEntry()) {
      const { compressedSize, uncompressedSize, fileName } = entry
      if (uncompressedSize > ratioCountsFrom && uncompressedSize > compressedSize * maxRatio) throw tooLargeError()
      entries.set(fileName.toLowerCase(), entry)
    }
    return { zip, entries }
  } catch (error) {
    if (error instanceof SourceReadError) throw error
    throw file.includes('xl/') ? brokenWorkbookError(error) : otherFormatError(file)
  }
}

function otherFormatError(file: Buffer): SourceReadError {
  return notATableError(findBinaryFormat(file.subarray(0, 65_536)) ?? 'not a workbook: send a table')
}

async function* unpack(
  zip: ZipFile,
  entries: ReadonlyMap<string, Entry>,
  path: string,
  size: PartSize,
): AsyncGenerator<Uint8Array> {
  const entry = entries.get(path.toLowerCase())
  if (entry === undefined) throw brokenWorkbookError(new Error(`the workbook lacks ${path}`))
  if (entry.isEncrypted()) throw notATableError('a workbook that is protected with a password: remove the password')
  if (entry.uncompressedSize > maxPartBytes[size]) throw tooLargeError()
  try {
    for await (const chunk of await zip.openReadStreamPromise(entry)) {
      if (chunk instanceof Uint8Array) yield chunk
    }
  } catch (error) {
    throw error instanceof SourceReadError ? error : brokenWorkbookError(error)
  }
}

async function contentTypes(part: AsyncGenerator<Uint8Array>): Promise<string> {
  return (await text(Readable.from(part))).toLowerCase()
}

const asWorkbook = 'open it in Excel and save it as an Excel workbook (.xlsx)'

function assertWorkbook(file: Buffer, types: string, paths: readonly string[]): void {
  if (types.includes('application/vnd.ms-excel.sheet.binary'))
    throw notATableError(`a binary workbook (.xlsb): ${asWorkbook}`)
  const isSheet = types.includes('spreadsheetml') || types.includes('application/vnd.ms-excel.')
  const hasMacros =
    types.includes('macroenabled') || paths.some((path) => /(?:^|\/)(?:vbaproject\.bin$|macrosheets\/)/.test(path))
  if (isSheet && hasMacros) throw notATableError(`a workbook with macros (.xlsm): ${asWorkbook}, without macros`)
  if (isSheet && types.includes('.main+xml')) return
  throw otherFormatError(file)
}

interface Relation {
  /** The last part of the URI: transitional and strict files differ only before it. */
  readonly type: string
  readonly path: string
}

async function relationsOf(openPart: Workbook['openPart'], source: string): Promise<ReadonlyMap<string, Relation>> {
  const cut = source.lastIndexOf('/') + 1
  const folder = source.slice(0, cut)
  const relations = new Map<string, Relation>()
  await readXml(openPart(`${folder}_rels/${source.slice(cut)}.rels`, 'small'), {
    open: (name, { Id: id, Type: type = '', Target: target = '', TargetMode: mode }) => {
      if (name !== 'Relationship' || id === undefined || mode === 'External') return
      const path = new URL(target, `zip:///${folder}`).pathname.slice(1)
      relations.set(id, { type: type.slice(type.lastIndexOf('/') + 1), path: decodeURIComponent(path) })
    },
  })
  return relations
}

function notATableError(what: string): SourceReadError {
  return new SourceReadError('not_a_table', `the file is ${what}`)
}

function tooLargeError(): SourceReadError {
  const message =
    'the workbook unpacks to far more than its size, as a zip bomb does: save the sheet as CSV (UTF-8) and send that'
  return new SourceReadError('workbook_too_large', message)
}
