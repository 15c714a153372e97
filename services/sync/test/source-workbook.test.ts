import { execFile } from 'node:child_process'
import { createWriteStream, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { writeXlsxStream } from 'hucre/xlsx'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import { kindOfCode } from '../src/source/workbook/styles.ts'
import { type Answers, type SourceServer, startSourceServer } from './source-server.ts'
import { failureOf, fileOf, readColumns, readSource } from './source-support.ts'
import { textRow, workbookOf, zipOf } from './workbook-support.ts'

const readBook = async (file: Buffer, config: unknown = {}) =>
  await readSource('csv', { config, upload: fileOf(file, 4096) })

async function valuesOf(file: Buffer, config: unknown = {}): Promise<unknown[]> {
  return (await readBook(file, config)).map((item) => (item.kind === 'row' ? item.values : expect.fail(item.message)))
}

async function failure(file: Buffer, config: unknown = {}) {
  const { code, message } = await failureOf('csv', { config, upload: fileOf(file, 4096) })
  return [code, message]
}

async function codeWithin(limits: object, file: Buffer): Promise<string> {
  return (await failureOf('csv', { upload: fileOf(file), limits })).code
}

const fixture = (name: string): Buffer => readFileSync(new URL(`data/${name}`, import.meta.url))
const table = textRow(1, 'id', 'name') + textRow(2, '1', 'Köln')
const named = { id: '1', name: 'Köln' }

describe('a workbook is refused, with what to do,', () => {
  const macroType = 'application/vnd.ms-excel.sheet.macroEnabled.main+xml'
  const binaryType = 'application/vnd.ms-excel.sheet.binary.macroEnabled.main'
  const ods = 'application/vnd.oasis.opendocument.spreadsheet'
  test.each([
    ['if it has a password', fixture('password.xlsx'), 'not_a_table', 'remove the password'],
    ['if it may run macros', workbookOf(table, { mainType: macroType }), 'not_a_table', 'without macros'],
    ['if it has macros', workbookOf(table, { more: { 'xl/vbaProject.bin': 'x' } }), 'not_a_table', 'without macros'],
    ['if it is binary', workbookOf(table, { mainType: binaryType }), 'not_a_table', '.xlsb'],
    ['if it is of OpenDocument', zipOf({ mimetype: ods, 'content.xml': '<x/>' }), 'not_a_table', '.xlsx'],
    ['if it is a Word document', zipOf({ 'word/document.xml': '<x/>' }), 'not_a_table', 'Word'],
    ['if it is another archive', zipOf({ 'table.csv': 'id\n1\n' }), 'not_a_table', 'unpack it'],
    ['if it was cut off', workbookOf(table).subarray(0, -30), 'workbook_broken', 'save it again'],
    ['if it lacks its sheet', workbookOf(table, { sheets: {} }), 'sheet_missing', 'no sheet'],
    ['if a part declares entities', withPart(`<!DOCTYPE a [<!ENTITY b "c">]><a/>`), 'workbook_broken', 'save it again'],
    ['if a part nests too deep', withPart('<a>'.repeat(200)), 'workbook_broken', 'save it again'],
    ['if a part ends early', withPart('<worksheet><sheetData>'), 'workbook_broken', 'save it again'],
    ['if an element has too many attributes', withPart(manyAttributes()), 'workbook_broken', 'save it again'],
    ['if a comment is endless', withPart(`<!--${'- '.repeat(1_000_000)}`), 'workbook_broken', 'save it again'],
    ['if a sheet is a zip bomb', withPart(' '.repeat(20_000_000)), 'workbook_too_large', 'zip bomb'],
    [
      'if another part is a zip bomb',
      withPart('<a/>', 'xl/media/a.png', ' '.repeat(20_000_000)),
      'workbook_too_large',
      'zip bomb',
    ],
    ['if it is empty', workbookOf(''), 'source_empty', 'header'],
    ['if two columns have one name', workbookOf(textRow(1, 'id', 'id')), 'column_repeated', 'columns 1 and 2'],
    ['if rows are not in order', workbookOf(textRow(2, 'id') + textRow(2, '1')), 'workbook_broken', 'save it again'],
    [
      'if a row has a number beyond those of spreadsheets',
      workbookOf(textRow(10_000_000, 'id')),
      'workbook_broken',
      'save it again',
    ],
    ['if a row is endless', workbookOf(textRow(1, 'id') + textRow(2, 'x'.repeat(1_100_000))), 'row_too_long', 'split'],
  ])('%s', async (_when, file, code, advice) => {
    expect(await failure(file)).toEqual([code, expect.stringContaining(advice)])
  })

  test('if it has more bytes than may be held, or more rows than may be read', async () => {
    const [small, rows] = [workbookOf(table), workbookOf(table + textRow(3, '2'))]
    expect(await codeWithin({ maxPageBytes: small.length - 1 }, small)).toBe('workbook_too_large')
    expect(await codeWithin({ maxRows: 1 }, rows)).toBe('too_many_rows')
    expect(await valuesOf(small)).toEqual([named])
  })
})

function sharedRow(...ids: readonly number[]): string {
  return `<row>${ids.map((id) => `<c t="s"><v>${id}</v></c>`).join('')}</row>`
}

function* manyRows(): Generator<(string | number)[]> {
  yield ['id', 'name', 'amount', 'note']
  for (let row = 1; row <= 100_000; row += 1) yield [`E-${row}`, `Unit ${row}`, row * 1.5, `${row} `.repeat(40)]
}

function withPart(content: string, name = 'xl/worksheets/sheet0.xml', more = content): Buffer {
  return workbookOf(table, { more: { [name]: more } })
}

function manyAttributes(): string {
  return `<a ${Array.from({ length: 300 }, (_, at) => `b${at}=""`).join(' ')}/>`
}

describe('of a workbook', () => {
  test('the first sheet that is shown is read, or the one that is named', async () => {
    const file = fixture('openpyxl-1900.xlsx')
    expect((await readColumns('csv', { upload: fileOf(file) }))[0]).toContain('external_id')
    expect(await valuesOf(file, { sheet: 'Zweites Blatt', header_row: 3 })).toMatchObject([{ id: '1' }, {}, {}])
    expect(await failure(file, { sheet: 'Blatt 3' })).toEqual([
      'sheet_missing',
      expect.stringContaining('Hidden, Units, Zweites Blatt'),
    ])
  })

  test('a cell merged over several rows counts for each of them', async () => {
    const config = { sheet: 'Zweites Blatt', header_row: 3 }
    expect(await valuesOf(fixture('openpyxl-1900.xlsx'), config)).toEqual([
      { id: '1', gruppe: 'G' },
      { id: '2', gruppe: 'G' },
      { id: '3', gruppe: 'H' },
    ])
  })

  test.each(['openpyxl-1900.xlsx', 'openpyxl-1904.xlsx'])(
    'dates, numbers and truth values have one form in %s',
    async (name) => {
      const items = await readBook(fixture(name))
      expect(items.map(({ row, kind }) => [row, kind])).toEqual([
        [2, 'row'],
        [4, 'row'],
        [6, 'error'],
        [7, 'error'],
      ])
      expect(items.slice(0, 2).map(({ values }) => values)).toEqual([
        {
          external_id: '1001',
          name: 'Köln & <b>',
          type: 'department',
          on: '2026-02-28',
          at: '2026-02-28T13:30:15',
          time: '08:15:00',
          amount: '1234.5',
          share: '0.25',
          active: 'true',
          long: '12345678901234570000',
        },
        expect.objectContaining({ on: '1905-01-01', time: '00:00:01', amount: '0.0000001', active: 'false' }),
      ])
      expect(items.slice(2)).toMatchObject([{ code: 'formula_failed' }, { code: 'formula_not_calculated' }])
    },
  )

  test('formulas have their stored values', async () => {
    const [first, second] = await readBook(fixture('xlsxwriter.xlsx'))
    expect(first).toMatchObject({
      values: { id: '2', f: 'ab', when: '2026-11-30', el: '36:00:00', num: '0.3', rich: 'ab cd' },
    })
    expect(second).toMatchObject({
      kind: 'error',
      row: 3,
      faults: [{ code: 'formula_failed' }, { code: 'invalid_date' }],
    })
  })

  test('shared texts have no formats and readings, and escapes are resolved', async () => {
    const strings =
      '<si><t>id</t></si><si><r><t>Na</t></r><r><rPr><b/></rPr><t>me</t></r></si><si><t>東京</t><rPh sb="0" eb="2"><t>トウキョウ</t></rPh></si><si><t>a_x000D_\nb</t></si>'
    const rows = sharedRow(0, 1) + sharedRow(2, 3) + sharedRow(2, 9)
    const items = await readBook(workbookOf(rows, { strings }))
    expect(items[0]).toMatchObject({ row: 2, values: { id: '東京', Name: 'a\r\nb' } })
    expect(items[1]).toMatchObject({ row: 3, code: 'workbook_broken', field: 'Name' })
  })

  test('empty rows count as row numbers, and a value beside the table is not read', async () => {
    const rows = `${textRow(3, 'id', 'name')}<row r="4"><c r="A4" s="0"/></row>${textRow(7, '1', 'Köln')}${textRow(9, '2', 'B', 'note')}`
    const items = await readBook(workbookOf(rows))
    expect(items).toMatchObject([
      { kind: 'row', row: 7, values: named },
      { kind: 'row', row: 9, values: { id: '2', name: 'B' } },
    ])
  })

  test.each([
    ['1900', '59', '1900-02-28'],
    ['1900', '61', '1900-03-01'],
    ['1900', '1', '1900-01-01'],
    ['1900', '60', undefined],
    ['1900', '0', undefined],
    ['1900', '-1', undefined],
    ['1900', '2958466', undefined],
    ['1904', '0', '1904-01-01'],
    ['1904', '45000.999999', '2027-03-17'],
  ])('in the system of %s, day %s is %s', async (system, serial, date) => {
    const styles = '<cellXfs><xf numFmtId="14"/></cellXfs>'
    const rows = `${textRow(1, 'on')}<row r="2"><c r="A2" s="0"><v>${serial}</v></c></row>`
    const [item] = await readBook(workbookOf(rows, { styles, is1904: system === '1904' }))
    expect(item).toMatchObject(date === undefined ? { code: 'invalid_date' } : { values: { on: date } })
  })

  test.each([
    ['General', 'number'],
    ['0.00%', 'number'],
    ['#,##0.00 "day"', 'number'],
    ['[Red]0;[Blue]-0', 'number'],
    ['[$-409]d\\-mmm\\-yy;@', 'date'],
    ['mmmm', 'date'],
    ['yyyy"h"', 'date'],
    ['h:mm AM/PM', 'time'],
    ['mm:ss.0', 'time'],
    ['[hh]:mm', 'elapsed'],
    ['0.0E+00', 'number'],
    ['0_d', 'number'],
  ])('a cell with the format %s holds a %s', (code, kind) => {
    expect(kindOfCode(code)).toBe(kind)
  })
})

test('a workbook with 100,000 rows is read in bounded memory', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'workbook-'))
  try {
    const file = join(folder, 'large.xlsx')
    await pipeline(Readable.from(writeXlsxStream(manyRows(), { name: 'Units' })), createWriteStream(file))
    const program = fileURLToPath(new URL('read-workbook.mjs', import.meta.url))
    // The rows need more than 80 MiB.
    const args = ['--conditions=@postern/source', '--max-old-space-size=80', program, file]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    expect(JSON.parse(stdout)).toEqual({ rows: 100_000, last: 'E-100000' })
  } finally {
    await rm(folder, { recursive: true })
  }
})

describe('a workbook at a URL', () => {
  const answers: Answers = {}
  let server: SourceServer
  beforeAll(async () => {
    server = await startSourceServer(answers)
  })
  afterAll(async () => await server.close())

  test.each(['application/octet-stream', 'text/csv', 'application/zip'])(
    'is read whatever type it has: %s',
    async (type) => {
      answers['/units.xlsx'] = (_, response) => {
        response.writeHead(200, { 'content-type': type }).end(workbookOf(table))
      }
      const outbound = openOutbound({ networks: ['127.0.0.0/8'] })
      const config = { url: `${server.url}/units.xlsx` }
      expect(await readSource('csv', { config, outbound })).toMatchObject([{ values: named }])
    },
  )
})
