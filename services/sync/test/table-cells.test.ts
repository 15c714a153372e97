import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { datasetRules } from '../src/dataset/rules.ts'
import { createMapper } from '../src/mapping/map-row.ts'
import { createItemReader } from '../src/mapping/readable-item.ts'
import type { SourceItem } from '../src/source/types.ts'
import { toJsonItem } from '../src/source/http/json-items.ts'
import { defaultLimits } from '../src/source/limits.ts'
import { failureOf, fileOf, readSource } from './source-support.ts'

const entities = datasetRules.auditable_entities
const readCsv = async (content: string | Uint8Array, config: unknown = {}, pieceBytes = 7): Promise<SourceItem[]> =>
  await readSource('csv', { config, upload: fileOf(content, pieceBytes) })

const zip = (...names: string[]): Buffer => Buffer.from(`PK\u0003\u0004${'\0'.repeat(26)}${names.join('\0')}`, 'latin1')
const compound = (name: string): Buffer =>
  Buffer.concat([Buffer.from('d0cf11e0a1b11ae1', 'hex'), Buffer.alloc(504), Buffer.from(`${name}\0`, 'utf16le')])

describe('a cell that cannot be read', () => {
  const rules = [
    { target: 'external_id', source: 'id' },
    { target: 'name', source: 'name' },
    { target: 'type', constant: 'process' },
  ]

  test('is an error of its row if a rule of the mapping reads its column', async () => {
    const items = await readCsv('id,name,notes\n1,#N/A,#REF!\n')
    const read = createItemReader(rules, entities)
    expect(items.map(read)).toMatchObject([{ kind: 'error', row: 2, field: 'name', code: 'formula_failed' }])
  })

  test('does not refuse the row if no rule of the mapping reads its column', async () => {
    const read = createItemReader(rules, entities)
    const map = createMapper(rules, entities)
    for (const cell of ['#N/A', 'a\u0001b', 'x'.repeat(100_001)]) {
      const [item] = (await readCsv(`id,name,notes\n1,A,${cell}\n`, {}, 4096)).map(read)
      expect(item).toMatchObject({ kind: 'row', row: 2, values: { id: '1', name: 'A', notes: undefined } })
      expect(map(item?.values ?? {})).toMatchObject({ ok: true, key: '1' })
    }
  })

  test('does not reject the row without a mapping if its column is not a field of the dataset', async () => {
    const read = createItemReader([], entities)
    const [foreign, own] = (await readCsv('external_id,name,notes\n1,A,#N/A\n2,#N/A,x\n')).map(read)
    expect(foreign).toMatchObject({ kind: 'row', row: 2 })
    expect(own).toMatchObject({ kind: 'error', row: 3, field: 'name' })
  })

  test('does not refuse an item of JSON if no rule of the mapping reads its member', () => {
    const item = { id: '1', name: 'A', notes: 'a\0b', more: 'x'.repeat(100_001) }
    const read = createItemReader(rules, entities)
    expect(read(toJsonItem(item, 1, defaultLimits))).toMatchObject({ kind: 'row', values: { id: '1', name: 'A' } })
    const broken = toJsonItem({ ...item, name: 'a\0b' }, 1, defaultLimits)
    expect(read(broken)).toMatchObject({ kind: 'error', field: 'name', code: 'control_character' })
  })
})

test('text that looks like a formula is stored as text', async () => {
  const cells = ['- Treasury (London) approves', '+Vertrieb (DACH)', '@Risk', '@SUM(A1)', '=1+1', '-', '+49 30 1234']
  const items = await readCsv(`name\n${cells.map((cell) => `"${cell}"`).join('\n')}\n`)
  expect(items).toEqual(cells.map((name, at) => ({ kind: 'row', row: at + 2, values: { name } })))
})

describe('U+FFFD', () => {
  test.each([
    ['UTF-8', Buffer.from('id,name\n1,Caf\uFFFD\n2,Köln\n')],
    ['UTF-8 in quotes', Buffer.from('id,name\n1,"Caf\uFFFD"\n2,Köln\n')],
    ['UTF-16LE', Buffer.from('\uFEFFid,name\n1,Caf\uFFFD\n2,Köln\n', 'utf16le')],
    ['UTF-16BE', Buffer.from('\uFEFFid,name\n1,Caf\uFFFD\n2,Köln\n', 'utf16le').swap16()],
  ])('that stands in a table in %s stays, wherever the parts of the file end', async (_, bytes) => {
    for (const pieceBytes of [1, 2, 3, 4096]) {
      const items = await readCsv(bytes, {}, pieceBytes)
      expect(items.map(({ values }) => values)).toEqual([
        { id: '1', name: 'Caf\uFFFD' },
        { id: '2', name: 'Köln' },
      ])
    }
  })

  test('does not hide bytes that are invalid in the encoding', async () => {
    const broken = Buffer.concat([
      Buffer.from('id,name\n1,Köln\n2,"a\uFFFD'),
      Buffer.from([0xe2, 0x82]),
      Buffer.from('\uFFFDb"\n3,\uFFFD\n'),
    ])
    const items = await readCsv(broken)
    expect(items).toMatchObject([
      { kind: 'row' },
      { kind: 'error', row: 3, field: 'name', code: 'encoding_broken' },
      { kind: 'row', values: { name: '\uFFFD' } },
    ])
  })
})

describe('a line break', () => {
  test('in a field of one line becomes a blank, and the row says so', () => {
    const row = { external_id: 'A', name: 'Accounts \r\n payable', type: 'process', owner: { name: 'Ada\tLund' } }
    const mapped = createMapper([], entities)(row)
    expect(mapped).toMatchObject({ ok: true, content: { name: 'Accounts payable', owner: { name: 'Ada Lund' } } })
    expect(mapped.ok && mapped.warnings.map(({ field, code }) => [field, code])).toEqual([
      ['name', 'line_break_folded'],
      ['owner.name', 'line_break_folded'],
    ])
  })

  test('in a key, or another control character in a name, refuses the row', () => {
    const map = createMapper([], entities)
    expect(map({ external_id: 'A\nB', name: 'N', type: 'process' })).toMatchObject({ ok: false })
    expect(map({ external_id: 'A', name: 'N\u001b', type: 'process' })).toMatchObject({ ok: false })
  })
})

describe('the date transformation', () => {
  const map = createMapper(
    [
      { target: 'external_id', source: 'id' },
      { target: 'name', source: 'id' },
      { target: 'type', constant: 'process' },
      { target: 'last_audit_date', source: 'on', transforms: [{ kind: 'date', format: 'YYYY-MM-DD' }] },
    ],
    entities,
  )

  test.each([
    '2024-02-29 or later',
    '2024-02-29Tsome text',
    '2024-02-29 - 2024-03-31',
    '2024-02-29/2024-03-31',
    '2024-02-29 25:61',
    '2024-02-29T10:00:00+25:00',
    '2024-02-29 10:00 provisional',
    '2024-02-29T',
  ])('refuses %s, so that no text is lost', (on) => {
    expect(map({ id: 'A', on })).toMatchObject({ ok: false, faults: [{ field: 'last_audit_date' }] })
  })

  test.each([
    '2024-02-29',
    '2024-02-29 00:00:00',
    '2024-02-29T10:30Z',
    '2024-02-29T10:30:00.1234567+01:00',
    '2024-02-29 02:30:00+00',
  ])('takes the day of %s', (on) => {
    expect(map({ id: 'A', on })).toMatchObject({ ok: true, content: { last_audit_date: '2024-02-29' } })
  })
})

describe('a file that is not a table is identified, with advice', () => {
  test.each([
    ['protected with a password', compound('EncryptedPackage')],
    ['old Excel workbook', compound('Workbook')],
    ['Word document', compound('WordDocument')],
    ['old Excel workbook', Buffer.from('0908100000060500', 'hex')],
    ['OpenDocument spreadsheet', zip('mimetypeapplication/vnd.oasis.opendocument.spreadsheet')],
    ['Word document', zip('[Content_Types].xml', 'word/document.xml')],
    ['ZIP archive', zip('table.csv')],
    ['RTF', Buffer.from('{\\rtf1\\ansi external_id,name,type\\par}')],
    ['web page with a table', Buffer.from('<table><tr><td>id</td><td class="x">name</td></tr></table>')],
    ['web page with a table', Buffer.from('<html xmlns:x="urn:schemas-microsoft-com:office:excel"><body><table>')],
    ['web page, perhaps a sign-in page', Buffer.from('<!doctype html><form><table></table></form>')],
    [
      'XML spreadsheet',
      Buffer.from('<?xml version="1.0"?><Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet">'),
    ],
    ['is XML', Buffer.from('<?xml version="1.0"?><rows/>')],
    ['is JSON', Buffer.from('{"id": 1}\n{"id": 2}\n')],
    ['a PDF', Buffer.from('%PDF-1.7\n')],
    ['SQLite', Buffer.from('SQLite format 3\0\u0010\0')],
    ['Parquet', Buffer.from('PAR1\u0015\u0004')],
    ['gzip', Buffer.from([0x1f, 0x8b, 8, 0])],
    ['7-Zip', Buffer.from('377abcaf271c0004', 'hex')],
    ['picture', Buffer.from('89504e470d0a1a0a', 'hex')],
    ['picture', Buffer.from('ffd8ffe000104a46', 'hex')],
    ['SYLK', Buffer.from('ID;PWXL;N;E\nP;PGeneral\nC;Y1;X1;K"id"\n')],
    ['web archive', Buffer.from('MIME-Version: 1.0\r\nContent-Type: multipart/related\r\n')],
    ['e-mail', Buffer.from('From: audit@harbourline.example\nSubject: Units\n\nid,name\n')],
    ['no text', Buffer.from('030b0c1001000000410010000000000000000000', 'hex')],
  ])('%s', async (named, bytes) => {
    const failure = await failureOf('csv', { upload: fileOf(bytes) })
    expect([failure.code, failure.message]).toEqual(['not_a_table', expect.stringContaining(named)])
  })

  test('and a table whose header looks a little like one is read', async () => {
    for (const header of [
      '[id],[name]',
      '{id},{name}',
      'ID;PLZ',
      'BM,name',
      'PAR,name',
      '<id>,<name>',
      'MM,II',
      'From: x,To: y',
    ]) {
      expect(await readCsv(`${header}\n1${header.includes(';') ? ';' : ','}2\n`)).toHaveLength(1)
    }
  })
})

test('the sheet of a workbook with a password is not called old', async () => {
  const bytes = readFileSync(new URL('data/password.xlsx', import.meta.url))
  expect((await failureOf('csv', { upload: fileOf(bytes, 4096) })).message).toContain('remove the password')
})
