import { crc32, deflateRawSync } from 'node:zlib'

type Parts = Readonly<Record<string, string>>

const namespace = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main'
const relations = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
const mainType = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml'

/** A ZIP archive (APPNOTE.TXT, sections 4.3.7 and 4.3.12). */
export function zipOf(parts: Parts): Buffer {
  const files: Buffer[] = []
  const index: Buffer[] = []
  let offset = 0
  for (const [name, text] of Object.entries(parts)) {
    const content = Buffer.from(text)
    // Tools find the type of an OpenDocument file at a fixed place.
    const isStored = name === 'mimetype'
    const packed = isStored ? content : deflateRawSync(content)
    const fields = Buffer.alloc(26)
    fields.writeUInt16LE(20, 0)
    fields.writeUInt16LE(isStored ? 0 : 8, 4)
    fields.writeUInt32LE(crc32(content), 10)
    fields.writeUInt32LE(packed.length, 14)
    fields.writeUInt32LE(content.length, 18)
    fields.writeUInt16LE(Buffer.byteLength(name), 22)
    const file = Buffer.concat([Buffer.from('PK\u0003\u0004'), fields, Buffer.from(name), packed])
    const place = Buffer.alloc(14)
    place.writeUInt32LE(offset, 10)
    index.push(Buffer.from('PK\u0001\u0002'), Buffer.from([20, 0]), fields, place, Buffer.from(name))
    files.push(file)
    offset += file.length
  }
  const list = Buffer.concat(index)
  const end = Buffer.alloc(18)
  end.writeUInt16LE(files.length, 4)
  end.writeUInt16LE(files.length, 6)
  end.writeUInt32LE(list.length, 8)
  end.writeUInt32LE(offset, 12)
  return Buffer.concat([...files, list, Buffer.from('PK\u0005\u0006'), end])
}

interface Sheets {
  /** The content of `sheetData` by name of the sheet, with what follows it after `|`. */
  readonly sheets?: Parts
  readonly strings?: string
  readonly styles?: string
  readonly mainType?: string
  readonly is1904?: boolean
  readonly more?: Parts
}

/** A workbook whose parts a test decides. */
export function workbookOf(rows: string, { strings, styles, is1904, more, ...rest }: Sheets = {}): Buffer {
  const sheets = Object.entries(rest.sheets ?? { Table: rows })
  const type = rest.mainType ?? mainType
  const others = [strings === undefined ? [] : ['sharedStrings'], styles === undefined ? [] : ['styles']].flat()
  return zipOf({
    '[Content_Types].xml': `<Types><Override PartName="/xl/workbook.xml" ContentType="${type}"/></Types>`,
    '_rels/.rels': `<Relationships><Relationship Id="r" Type="${relations}/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
    'xl/workbook.xml': `<workbook xmlns="${namespace}" xmlns:r="${relations}"><workbookPr date1904="${is1904 === true ? 1 : 0}"/><sheets>${sheets
      .map(([name], at) => `<sheet name="${name}" sheetId="${at + 1}" r:id="s${at}"/>`)
      .join('')}</sheets></workbook>`,
    'xl/_rels/workbook.xml.rels': `<Relationships>${sheets
      .map(
        (_, at) => `<Relationship Id="s${at}" Type="${relations}/worksheet" Target="/xl/worksheets/sheet${at}.xml"/>`,
      )
      .join('')}${others
      .map((name) => `<Relationship Id="${name}" Type="${relations}/${name}" Target="${name}.xml"/>`)
      .join('')}</Relationships>`,
    ...Object.fromEntries(
      sheets.map(([, text], at) => {
        const [data = '', after = ''] = text.split('|')
        const sheet = `<worksheet xmlns="${namespace}"><sheetData>${data}</sheetData>${after}</worksheet>`
        return [`xl/worksheets/sheet${at}.xml`, sheet]
      }),
    ),
    ...(strings === undefined ? {} : { 'xl/sharedStrings.xml': `<sst xmlns="${namespace}">${strings}</sst>` }),
    ...(styles === undefined ? {} : { 'xl/styles.xml': `<styleSheet xmlns="${namespace}">${styles}</styleSheet>` }),
    ...more,
  })
}

export function textCell(place: string, text: string): string {
  return `<c r="${place}" t="inlineStr"><is><t xml:space="preserve">${text}</t></is></c>`
}

/** A row of texts. */
export function textRow(row: number, ...texts: readonly string[]): string {
  return `<row r="${row}">${texts.map((text, at) => textCell(`${String.fromCharCode(65 + at)}${row}`, text)).join('')}</row>`
}
