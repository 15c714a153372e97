import { type Column, readHeader } from '../csv/header.ts'
import { toTableRow } from '../csv/table-row.ts'
import { SourceReadError } from '../source-read-error.ts'
import { type SourceItem, type SourceLimits, type SourceTexts, emptyTable, toExcerpt } from '../types.ts'
import { createFiller, readMergedCells } from './merged-cells.ts'
import { type Sheet, type Workbook, openWorkbook } from './open-workbook.ts'
import { readSharedStrings } from './shared-strings.ts'
import { type SheetRow, readSheetRows } from './sheet-rows.ts'
import { readStyles } from './styles.ts'

interface WorkbookConfig {
  readonly sheet?: string | undefined
  readonly header_row?: number | undefined
  readonly columns?: readonly string[] | undefined
}

/** Yields the columns, then the rows of one sheet. Holds the file in memory and unpacks its parts while it reads them. */
export async function* readWorkbook(
  bytes: AsyncIterable<Uint8Array>,
  config: WorkbookConfig,
  { maxPageBytes, maxColumns, maxValueLength }: SourceLimits,
): AsyncGenerator<SourceItem | SourceTexts> {
  const workbook = await openWorkbook(await readAll(bytes, maxPageBytes))
  const { is1904, stringsPath, stylesPath, openPart } = workbook
  const { path } = findSheet(workbook, config.sheet)
  const strings = stringsPath === undefined ? [] : await readSharedStrings(openPart(stringsPath, 'strings'))
  const styles = stylesPath === undefined ? [] : await readStyles(openPart(stylesPath, 'small'))
  const fill = createFiller(await readMergedCells(openPart(path, 'sheet')))
  let columns: readonly Column[] | undefined
  for await (const rows of readSheetRows(openPart(path, 'sheet'), { strings, styles, is1904 })) {
    for (const { row, cells } of rows) {
      if (row < (config.header_row ?? 1)) continue
      if (columns === undefined) {
        columns = readHeader(namesIn(cells), config.columns, maxColumns, row)
        yield emptyTable(columns.map(({ name }) => name))
      } else {
        fill(row, cells)
        yield toTableRow(row, columns, (place) => cells[place] ?? '', maxValueLength)
      }
    }
  }
  if (columns === undefined) throw new SourceReadError('source_empty', 'the sheet is empty: it needs at least a header')
}

async function readAll(bytes: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of bytes) {
    length += part.length
    if (length > maxBytes) {
      const message = `the workbook has more than ${maxBytes} bytes: save the sheet as CSV (UTF-8) and send that`
      throw new SourceReadError('workbook_too_large', message)
    }
    parts.push(part)
  }
  return Buffer.concat(parts)
}

function findSheet({ sheets }: Workbook, wanted: string | undefined): Sheet {
  const isWanted = ({ name, isHidden }: Sheet): boolean =>
    wanted === undefined ? !isHidden : name.trim().normalize('NFC') === wanted
  const found = sheets.find(isWanted)
  if (found !== undefined) return found
  const names = toExcerpt(sheets.map(({ name }) => name).join(', '))
  const message =
    wanted === undefined
      ? `the workbook has no sheet that is visible: name one as \`sheet\`. It has ${names}`
      : `the workbook has no sheet named ${toExcerpt(wanted)}: it has ${names}. Change \`sheet\` of the connector`
  throw new SourceReadError('sheet_missing', message)
}

function namesIn(cells: SheetRow['cells']): string[] {
  return Array.from(cells, (cell) => (typeof cell === 'string' ? cell : ''))
}
