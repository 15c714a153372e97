import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import type { SourceItem } from '../src/source/types.ts'
import { type Answers, type SourceServer, startSourceServer } from './source-server.ts'
import { failureOf, fileOf, openSource, readSource } from './source-support.ts'

async function readCsv(content: string | Uint8Array, config: unknown = {}): Promise<SourceItem[]> {
  return await readSource('csv', { config, upload: fileOf(content) })
}

/** Returns the rows. Fails for an error item. */
async function valuesOf(content: string | Uint8Array, config: unknown = {}): Promise<unknown[]> {
  const items = await readCsv(content, config)
  return items.map((item) => (item.kind === 'row' ? item.values : expect.fail(item.message)))
}

async function failure(content: string | Uint8Array, config: unknown = {}) {
  const { code, message, row, field, retryable } = await failureOf('csv', { config, upload: fileOf(content) })
  return { code, message, row, field, retryable }
}

async function lastOf(bytes: Buffer): Promise<SourceItem | undefined> {
  return (await readSource('csv', { upload: fileOf(bytes, 65_536) })).at(-1)
}

/** A source that never says anything. */
const stalled = (): Readable => new Readable({ read: () => undefined })

/** cp1252 and UTF-16 as spreadsheets write them. */
const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')
const utf16le = (text: string): Buffer => Buffer.from(text, 'utf16le')
const utf16be = (text: string): Buffer => utf16le(text).swap16()
const utf32 = (text: string, order: 'big' | 'little'): Buffer => {
  const bytes = Buffer.concat(
    Array.from(text, (character) => Buffer.from(new Uint32Array([character.codePointAt(0) ?? 0]).buffer)),
  )
  return order === 'little' ? bytes : bytes.swap32()
}

describe('a table that cannot be read to its end is rejected', () => {
  test('when it is empty, or no file was uploaded', async () => {
    expect(await failure('')).toMatchObject({ code: 'source_empty' })
    expect(await failure('\r\n\r\n')).toMatchObject({ code: 'source_empty' })
    expect((await failureOf('csv')).code).toBe('upload_missing')
  })

  test('when it is a different kind of file, which is named', async () => {
    const html = await failure('\n<!DOCTYPE html><html><title>Sign in</title></html>')
    expect(html).toMatchObject({ code: 'not_a_table', message: expect.stringContaining('web page') })
    const archive = Buffer.concat([Buffer.from('PK\u0003\u0004'), Buffer.from([0x14, 0, 6, 0, 0xff])])
    expect(await failure(archive)).toMatchObject({ message: expect.stringContaining('unpack it and send the table') })
    const oldWorkbook = Buffer.from('d0cf11e0a1b11ae10000', 'hex')
    expect(await failure(oldWorkbook)).toMatchObject({ message: expect.stringContaining('old Excel workbook') })
    expect(await failure('[{"id": 1}]')).toMatchObject({ message: expect.stringContaining('http_json') })
  })

  test.each([
    ['little', 'auto', ''],
    ['little', 'auto', '\uFEFF'],
    ['big', 'auto', ''],
    ['big', 'auto', '\uFEFF'],
    ['little', 'utf-16le', '\uFEFF'],
    ['big', 'utf-8', ''],
  ] as const)('when it is in UTF-32, %s end first, read as %s, with the mark %j', async (order, encoding, mark) => {
    for (const text of ['id,name\n1,Köln\n', 'Łódź\n1\n', 'x']) {
      const why = { code: 'not_a_table', message: expect.stringContaining('in UTF-32: save it as CSV (UTF-8)') }
      expect(await failure(utf32(`${mark}${text}`, order), { encoding })).toMatchObject(why)
    }
  })

  test('when its header lacks a column that is read, with the one that may be meant', async () => {
    const drifted = await failure('External-ID,Title\nA,B\n', { columns: ['external_id', 'name'] })
    expect(drifted).toMatchObject({ code: 'column_missing', row: 1, field: 'external_id' })
    expect(drifted.message).toContain('external_id, name')
    expect(drifted.message).toContain('(it has External-ID)')
    expect(await valuesOf('name,extra,external_id\nB,x,A\n', { columns: ['external_id', 'name'] })).toEqual([
      { external_id: 'A', name: 'B' },
    ])
  })

  test('when two columns that are read have the same name', async () => {
    expect(await failure('id,name, id\n1,2,3\n')).toMatchObject({
      code: 'column_repeated',
      row: 1,
      field: 'id',
      message: expect.stringContaining('columns 1 and 3 are both named id: give them different names'),
    })
    expect(await failure('id,name, id\n1,2,3\n', { columns: ['id'] })).toMatchObject({ code: 'column_repeated' })
    expect(await valuesOf('id,name, id\n1,2,3\n', { columns: ['name'] })).toEqual([{ name: '2' }])
  })

  test('when no column has a name, while columns without one are not read', async () => {
    expect(await failure('  \n1\n')).toMatchObject({ code: 'column_unnamed', row: 1 })
    expect(await valuesOf(',id,,name,\n0,1,2,3,\n')).toEqual([{ id: '1', name: '3' }])
  })

  test('when it has a million columns, in its header or below', async () => {
    const commas = ','.repeat(1_000_000)
    expect((await failureOf('csv', { upload: fileOf(`a${commas}\n`, 65_536) })).code).toBe('too_many_columns')
    const names = `a${','.repeat(9)}`.repeat(100_000)
    expect((await failureOf('csv', { upload: fileOf(names, 65_536) })).code).toBe('too_many_columns')
    const quoted = '"a",'.repeat(250_000)
    expect((await failureOf('csv', { upload: fileOf(`id,name\n1,2\n${quoted}\n`, 65_536) })).row).toBe(3)
  })

  test('when a quote is not closed or is inside a value, with its row and column', async () => {
    expect(await failure('id,name\n1,one\n2,"two\n3,three\n')).toMatchObject({ code: 'quote_open', row: 3 })
    expect(await failure('id,name\n1,6" pipe\n')).toMatchObject({ code: 'quote_misplaced', row: 2, field: 'column 2' })
    expect(await failure('id,name\n1,"a "b" c"\n')).toMatchObject({ code: 'quote_misplaced', row: 2 })
    expect(await valuesOf('id,name\n1,6" pipe\n', { lenient_quotes: true })).toEqual([{ id: '1', name: '6" pipe' }])
  })

  test('when an open quote swallows a mebibyte', async () => {
    const swallowing = `id,name\n1,"${'x\n'.repeat(600_000)}`
    expect((await failureOf('csv', { upload: fileOf(swallowing, 65_536) })).code).toBe('row_too_long')
  })

  test('when it has more bytes or rows than may be read', async () => {
    const file = 'id\n1\n2\n3\n'
    expect((await failureOf('csv', { limits: { maxBytes: 8 }, upload: fileOf(file) })).code).toBe('source_too_large')
    expect((await failureOf('csv', { limits: { maxRows: 2 }, upload: fileOf(file) })).code).toBe('too_many_rows')
    expect(await readSource('csv', { limits: { maxBytes: 9, maxRows: 3 }, upload: fileOf(file) })).toHaveLength(3)
    const sparse = 'id\n1\n\n\n\n\n'
    expect(await readSource('csv', { limits: { maxRows: 3 }, upload: fileOf(sparse) })).toHaveLength(1)
    const more = fileOf(`${sparse}\n`)
    expect((await failureOf('csv', { limits: { maxRows: 3 }, upload: more })).code).toBe('too_many_lines')
  })

  test('when it is silent or slow for too long, and can be retried', async () => {
    const silent = await failureOf('csv', { limits: { maxSilenceMs: 20 }, upload: stalled() })
    expect(silent).toMatchObject({ code: 'source_too_slow', retryable: true })
    const endless = await failureOf('csv', { limits: { maxDurationMs: 20 }, upload: stalled() })
    expect(endless).toMatchObject({ code: 'source_too_slow', retryable: true })
  })
})

describe('a row that cannot be read is an error, and those after it are read', () => {
  test('a row with too few or too many cells', async () => {
    expect(await readCsv('id,name\n1\n2,two\n3,three,more\n')).toEqual([
      { kind: 'error', row: 2, code: 'cell_count', message: expect.stringContaining('1 cells and the header 2') },
      { kind: 'row', row: 3, values: { id: '2', name: 'two' } },
      { kind: 'error', row: 4, code: 'cell_count', message: expect.stringContaining('3 cells and the header 2') },
    ])
    expect(await valuesOf('id,name\n1\n', { short_rows: true })).toEqual([{ id: '1', name: '' }])
  })

  test.each([
    ['#REF!', 'formula_failed'],
    ['a\u0000b', 'control_character'],
    ['x'.repeat(100_001), 'value_too_long'],
  ])('a cell with %s is %s', async (cell, code) => {
    const content = `id,name\n1,"${cell.replaceAll('"', '""')}"\n2,two\n`
    const [error, row] = await readSource('csv', { upload: fileOf(content, 4096) })
    expect(error).toMatchObject({ kind: 'error', row: 2, field: 'name', code })
    expect(row).toEqual({ kind: 'row', row: 3, values: { id: '2', name: 'two' } })
  })

  test('text that only starts like a formula is a value', async () => {
    const cells = ['+49 30 1234', '-5', '-12,50', '@handle', '#1', '- none -']
    expect(await valuesOf(`name\n${cells.map((cell) => `"${cell}"`).join('\n')}\n`)).toEqual(
      cells.map((name) => ({ name })),
    )
  })

  test('a failed formula in a column that is not read does no harm', async () => {
    expect(await valuesOf('id,sum\n1,#REF!\n', { columns: ['id'] })).toEqual([{ id: '1' }])
  })

  test('bytes that are invalid in the encoding', async () => {
    const broken = Buffer.concat([Buffer.from('id,name\n1,Köln\n2,M'), latin1('ü'), Buffer.from('nchen\n3,Jena\n')])
    const [, error, last] = await readCsv(broken)
    expect(error).toMatchObject({ kind: 'error', row: 3, field: 'name', code: 'encoding_broken' })
    expect(last).toMatchObject({ kind: 'row', row: 4 })
  })

  test('half of a pair of UTF-16', async () => {
    const [error, last] = await readCsv(Buffer.from('\uFEFFid,name\n1,a\uD800b\n2,Jena\n', 'utf16le'))
    expect(error).toMatchObject({ kind: 'error', row: 2, field: 'name', code: 'encoding_broken' })
    expect(last).toMatchObject({ kind: 'row', row: 3 })
  })
})

test('lines without a value are not rows', async () => {
  const lines = ['a,b', '1,2', ',', '3,4', '"",""', '","', '']
  const items = await readSource('csv', { upload: fileOf(lines.join('\n')), limits: { maxRows: 3 } })
  expect(items.map(({ row }) => row)).toEqual([2, 4, 6])
})

describe('a table is read', () => {
  const text = 'id;name\r\n1;Köln – 5 €\r\n'
  const values = [{ id: '1', name: 'Köln – 5 €' }]
  const cp1252 = Buffer.concat([
    latin1('id;name\r\n1;Köln '),
    Buffer.from([0x96]),
    latin1(' 5 '),
    Buffer.from([0x80, 0x0d]),
  ])

  test.each([
    ['UTF-8', Buffer.from(text)],
    ['UTF-8 with a byte order mark', Buffer.from(`\uFEFF${text}`)],
    ['UTF-16, little end first, with a mark', utf16le(`\uFEFF${text}`)],
    ['UTF-16, big end first, with a mark', utf16be(`\uFEFF${text}`)],
    ['UTF-16 without a mark', utf16le(text)],
    ['windows-1252', cp1252],
  ])('in %s', async (_, bytes) => {
    expect(await valuesOf(bytes)).toEqual(values)
    // Every split, also inside a character and inside a line end.
    expect((await readSource('csv', { upload: fileOf(bytes, 1) })).length).toBe(1)
  })

  test('in an encoding that shows only after long ASCII', async () => {
    const rows = 'name\n' + 'plain\n'.repeat(12_000)
    expect(await lastOf(Buffer.concat([Buffer.from(rows), latin1('Köln\n')]))).toMatchObject({
      values: { name: 'Köln' },
    })
    expect(await lastOf(Buffer.from(`${rows}Köln\n`))).toMatchObject({ values: { name: 'Köln' } })
  })

  test('in the encoding that the connector names', async () => {
    expect(await valuesOf(Buffer.from([0x6e, 0x0a, 0xa3]), { encoding: 'iso-8859-2' })).toEqual([{ n: 'Ł' }])
  })

  test.each([',', ';', '\t', '|'])('with %j between its cells', async (separator) => {
    const other = separator === ',' ? ';' : ','
    expect(await valuesOf(`id${separator}name\n1${separator}a${other}b\n`)).toEqual([{ id: '1', name: `a${other}b` }])
  })

  test('with the delimiter of its first row, wherever the sample ends', async () => {
    const row = `1;"${'x'.repeat(5000)}"\n`
    expect(await valuesOf(`id;name\n${row.repeat(20)}`)).toHaveLength(20)
  })

  test('with the delimiter of its first row, after lines without a value', async () => {
    for (const blank of ['\n', '\r\n\r\n', ';\r\n', '\n;;\n\n']) {
      expect(await valuesOf(`${blank}id;name\n1;a,b\n`)).toEqual([{ id: '1', name: 'a,b' }])
    }
  })

  test('with the delimiter of its first line for Excel, which is not a row', async () => {
    for (const line of ['sep=;\r\n', 'SEP=;\n', '"sep=;"\r', '\uFEFFsep=;\n']) {
      const items = await readCsv(`${line}a,b;c,d,e\n1;2\n`)
      expect(items).toEqual([{ kind: 'row', row: 2, values: { 'a,b': '1', 'c,d,e': '2' } }])
    }
    expect(await valuesOf('sep=;\nid\tname\n1\t2\n', { delimiter: '\t' })).toEqual([{ id: '1', name: '2' }])
    expect(await failure('sep=;\n')).toMatchObject({ code: 'source_empty' })
    expect(await valuesOf('id;name\nsep=,;2\n')).toEqual([{ id: 'sep=,', name: '2' }])
  })

  test('with a separator inside a quoted name', async () => {
    expect(await valuesOf('"a,b,c";d\n1;2\n')).toEqual([{ 'a,b,c': '1', d: '2' }])
  })

  test('with line ends and quotes inside values, and rows counted as a spreadsheet does', async () => {
    const items = await readCsv('id,note\r\n1,"two\r\nlines, and ""quotes"""\r\n\r\n,\r\n2,last')
    expect(items).toEqual([
      { kind: 'row', row: 2, values: { id: '1', note: 'two\r\nlines, and "quotes"' } },
      { kind: 'row', row: 5, values: { id: '2', note: 'last' } },
    ])
  })

  test('with line ends of several kinds', async () => {
    expect(await valuesOf('id\r\n1\n2\r3')).toEqual([{ id: '1' }, { id: '2' }, { id: '3' }])
  })

  test('with a column named as a member that every object has', async () => {
    const [row] = await valuesOf('__proto__,constructor\n1,2\n')
    expect(Object.entries(row ?? {})).toEqual([
      ['__proto__', '1'],
      ['constructor', '2'],
    ])
  })

  test('only as far as its reader asks, and is then closed', async () => {
    let given = 0
    const endless = new Readable({
      read() {
        given += 65_536
        this.push(given === 65_536 ? Buffer.from('id\n') : Buffer.alloc(65_536, '1\n'))
      },
    })
    let rows = 0
    for await (const item of openSource('csv', { upload: endless })) {
      expect(item.kind).toBe('row')
      rows++
      if (rows === 20_000) break
    }
    // 20,000 rows are 40,000 bytes; the rest is what lies in buffers on the way.
    expect(given).toBeLessThan(1_000_000)
    expect(endless.destroyed).toBe(true)
  })

  test('until the run is cancelled', async () => {
    const cancel = new AbortController()
    const file = stalled()
    file.push('id\n1\n')
    const reading = readSource('csv', { upload: file, signal: cancel.signal })
    cancel.abort(new Error('cancelled'))
    await expect(reading).rejects.toThrow('cancelled')
    expect(file.destroyed).toBe(true)
  })
})

describe('a fetched table has the encoding that its server declares', () => {
  const answers: Answers = {}
  const outbound = openOutbound({ networks: ['127.0.0.1'] })
  let server: SourceServer
  beforeAll(async () => {
    server = await startSourceServer(answers)
  })
  afterAll(async () => await server.close())

  const fetched = async (mediaType: string, body: Uint8Array, encoding = 'auto'): Promise<unknown> => {
    answers['/list.csv'] = (_, response) => response.writeHead(200, { 'content-type': mediaType }).end(body)
    const config = { url: `${server.url}/list.csv`, encoding }
    const [item] = await readSource('csv', { config, outbound })
    return item?.kind === 'row' ? item.values['n'] : item?.code
  }
  const polish = Buffer.from([0x6e, 0x0a, 0xa3])

  test.each([
    ['text/csv; charset=iso-8859-2', 'Ł'],
    ['text/csv;header=present; Charset="Windows-1250"', 'Ł'],
    ['text/csv; charset=shift_jis', '\uFF63'],
    ['text/csv; charset=utf-8', 'encoding_broken'],
    ['text/csv', '£'],
    ['text/csv; charset=klingon', '£'],
    ['text/csv; charset=', '£'],
  ])('%s', async (mediaType, read) => {
    expect(await fetched(mediaType, polish)).toBe(read)
  })

  test('unless the connector names one, the text has a byte order mark, or it is UTF-8 and the server sends the usual default', async () => {
    expect(await fetched('text/csv; charset=shift_jis', polish, 'iso-8859-2')).toBe('Ł')
    expect(await fetched('text/csv; charset=shift_jis', Buffer.from('\uFEFFn\nŁ'))).toBe('Ł')
    expect(await fetched('text/csv; charset=iso-8859-2', utf16le('\uFEFFn\nŁ'))).toBe('Ł')
    expect(await fetched('text/csv; charset=ISO-8859-1', Buffer.from('n\nŁ'))).toBe('Ł')
    expect(await fetched('text/csv; charset=ISO-8859-1', latin1('n\nü'))).toBe('ü')
  })
})
