interface Format {
  readonly at?: number
  readonly signature: string | readonly number[]
  readonly is: string
}

const saveAs = 'save it as an Excel workbook (.xlsx), or the sheet as CSV (UTF-8)'
const unpack = 'unpack it and send the table in it'
const picture = 'a picture: export the table itself as CSV (UTF-8)'
const recording = 'a recording: send a CSV file'

const signatures: readonly Format[] = [
  { signature: '%PDF-', is: 'a PDF: export the table as CSV (UTF-8) from the program that made the PDF' },
  { signature: [0x1f, 0x8b], is: `compressed (gzip): ${unpack}` },
  { signature: [0x1f, 0x9d], is: `compressed: ${unpack}` },
  { signature: 'BZh', is: `compressed (bzip2): ${unpack}` },
  { signature: [0xfd, 0x37, 0x7a, 0x58, 0x5a], is: `compressed (xz): ${unpack}` },
  { signature: [0x28, 0xb5, 0x2f, 0xfd], is: `compressed (zstd): ${unpack}` },
  { signature: [0x04, 0x22, 0x4d, 0x18], is: `compressed (lz4): ${unpack}` },
  { signature: [0x37, 0x7a, 0xbc, 0xaf, 0x27, 0x1c], is: `a 7-Zip archive: ${unpack}` },
  { signature: 'Rar!\u001a', is: `a RAR archive: ${unpack}` },
  { at: 257, signature: 'ustar', is: `a tar archive: ${unpack}` },
  { signature: 'MSCF\0', is: `a cabinet archive: ${unpack}` },
  { signature: 'SQLite format 3\0', is: 'a SQLite database: export the table as CSV (UTF-8)' },
  { at: 4, signature: 'Standard Jet DB', is: 'an Access database: export the table as CSV (UTF-8)' },
  { at: 4, signature: 'Standard ACE DB', is: 'an Access database: export the table as CSV (UTF-8)' },
  { signature: 'PAR1', is: 'a Parquet file: export it as CSV (UTF-8)' },
  { signature: 'ARROW1', is: 'an Arrow file: export it as CSV (UTF-8)' },
  { signature: 'Obj\u0001', is: 'an Avro file: export it as CSV (UTF-8)' },
  { signature: [0x89, 0x48, 0x44, 0x46], is: 'an HDF5 file: export it as CSV (UTF-8)' },
  { signature: '$FL2@(#)', is: 'an SPSS file: export it as CSV (UTF-8)' },
  { signature: '<stata_dta>', is: 'a Stata file: export it as CSV (UTF-8)' },
  { signature: 'bplist00', is: 'a property list: export the table as CSV (UTF-8)' },
  { signature: [0x89, 0x50, 0x4e, 0x47], is: picture },
  { signature: [0xff, 0xd8, 0xff], is: picture },
  { signature: 'GIF87a', is: picture },
  { signature: 'GIF89a', is: picture },
  { signature: 'II*\0', is: picture },
  { signature: 'MM\0*', is: picture },
  { at: 8, signature: 'WEBP', is: picture },
  { at: 4, signature: 'ftyphei', is: picture },
  { at: 4, signature: 'ftypmif1', is: picture },
  { at: 4, signature: 'ftypavif', is: picture },
  { at: 4, signature: 'ftyp', is: recording },
  { at: 8, signature: 'WAVEfmt ', is: recording },
  { at: 8, signature: 'AVI LIST', is: recording },
  { signature: 'ID3\u0003', is: recording },
  { signature: 'ID3\u0004', is: recording },
  { signature: 'OggS\0', is: recording },
  { signature: [0x1a, 0x45, 0xdf, 0xa3], is: recording },
  { signature: 'MZ\u0090\0', is: 'a program: send a CSV file' },
  { signature: [0x7f, 0x45, 0x4c, 0x46], is: 'a program: send a CSV file' },
  { signature: [0x09, 0x00, 0x04, 0x00], is: `an old Excel workbook: open it and ${saveAs}` },
  { signature: [0x09, 0x02, 0x06, 0x00], is: `an old Excel workbook: open it and ${saveAs}` },
  { signature: [0x09, 0x04, 0x06, 0x00], is: `an old Excel workbook: open it and ${saveAs}` },
  { signature: [0x09, 0x08, 0x08, 0x00], is: `an old Excel workbook: open it and ${saveAs}` },
  { signature: [0x09, 0x08, 0x10, 0x00], is: `an old Excel workbook: open it and ${saveAs}` },
]

const compoundFile = Buffer.from('d0cf11e0a1b11ae1', 'hex')

/** Undefined for text. */
export function findBinaryFormat(bytes: Uint8Array): string | undefined {
  const start = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (start.subarray(0, 8).equals(compoundFile)) return nameCompoundFile(start)
  if (['PK\u0003\u0004', 'PK\u0005\u0006'].includes(start.toString('latin1', 0, 4))) return nameZip(start)
  return signatures.find(({ at = 0, signature }) => {
    const expected = typeof signature === 'string' ? Buffer.from(signature, 'latin1') : Buffer.from(signature)
    return start.subarray(at, at + expected.length).equals(expected)
  })?.is
}

/** By stream names in UTF-16 (MS-CFB 2.6.1). In a large file they may lie beyond the sample. */
function nameCompoundFile(start: Buffer): string {
  const has = (name: string): boolean => start.includes(Buffer.from(`${name}\0`, 'utf16le'))
  if (has('EncryptedPackage')) {
    return 'a workbook that is protected with a password: open it, remove the password, and save it again'
  }
  if (has('Workbook') || has('Book')) return `an old Excel workbook (.xls): open it and ${saveAs}`
  if (has('WordDocument')) return 'a Word document: put the table into a spreadsheet and save it as CSV (UTF-8)'
  if (has('PowerPoint Document')) return 'a presentation: put the table into a spreadsheet and save it as CSV (UTF-8)'
  if (has('__properties_version1.0')) return 'an Outlook message: send the file that is attached to it'
  return 'an old Excel workbook (.xls), or one that is protected with a password: open it, remove the password if it has one, and save it as an Excel workbook (.xlsx)'
}

function nameZip(start: Buffer): string {
  if (start.includes('mimetypeapplication/vnd.oasis.opendocument.')) {
    const isSheet = start.includes('opendocument.spreadsheet')
    return isSheet
      ? `an OpenDocument spreadsheet (.ods): open it and ${saveAs}`
      : 'an OpenDocument file without a sheet: put the table into a spreadsheet and save it as CSV (UTF-8)'
  }
  if (start.includes('word/')) return 'a Word document: put the table into a spreadsheet and save it as CSV (UTF-8)'
  if (start.includes('ppt/')) return 'a presentation: put the table into a spreadsheet and save it as CSV (UTF-8)'
  if (start.includes('.iwa')) return 'an Apple Numbers or Pages file: export it as CSV (UTF-8)'
  return `a ZIP archive: ${unpack}`
}

const textFormats: readonly { readonly pattern: RegExp; readonly is: string }[] = [
  { pattern: /^\{\\rtf/i, is: 'a text document (RTF): put the table into a spreadsheet and save it as CSV (UTF-8)' },
  {
    pattern: /^<(?:\?xml|\w)[^]{0,4000}urn:schemas-microsoft-com:office:spreadsheet/i,
    is: `an XML spreadsheet of Excel 2003: open it in Excel and ${saveAs}`,
  },
  {
    pattern: /^<[^]{0,4000}urn:oasis:names:tc:opendocument/i,
    is: `an OpenDocument spreadsheet in XML: open it and ${saveAs}`,
  },
  { pattern: /^<(?:\?xml[^]{0,2000}<)?svg\b/i, is: picture },
  {
    pattern: /^(?!<\?xml)<(?=[^]{0,65536}<table\b|table\b)(?![^]{0,65536}<form\b)/i,
    is: `a web page with a table, which some programs export as .xls: open it in a spreadsheet and ${saveAs}`,
  },
  {
    pattern:
      /^<(?:!doctype html|html|head|body|script|meta|title|style|link|base|div|form|p|h[1-6]|br|font|center|span)\b/i,
    is: 'a web page, perhaps a sign-in page: check the address and the credentials, or export the table as CSV (UTF-8)',
  },
  {
    pattern: /^<(?:\?xml|!--|!doctype|[a-z_][\w.:-]*(?:\s[^<>]*)?\/?>\s*<)/i,
    is: 'XML: export the table as CSV (UTF-8)',
  },
  {
    pattern: /^(?:\{\s*(?:"|\}|$)|\[\s*(?:["{[\]]|-?\d[\d.eE+-]*\s*[,\]]|(?:true|false|null)\b))/,
    is: 'JSON: use a connector of type http_json, or push the rows to the API',
  },
  {
    pattern: /^(?:MIME-Version|Received|Return-Path): |^(?:From|To|Subject|Date): [^\r\n]*\r?\n[A-Z][\w-]*: /i,
    is: 'an e-mail or a web archive: send the table in it as CSV (UTF-8)',
  },
  { pattern: /^BEGIN:V(?:CARD|CALENDAR)\b/i, is: 'a calendar or address book: export a table as CSV (UTF-8)' },
  {
    pattern: /^-----BEGIN [A-Z ]+-----/,
    is: 'encrypted, signed or a certificate: decrypt it and send the CSV file in it',
  },
  { pattern: /^%!PS/, is: 'a PostScript file: export the table as CSV (UTF-8)' },
  {
    pattern: /^ID;P[^\r\n]*[\r\n]+(?:P;[PFE]|B;[XY]|F;|O;|C;[XY])/,
    is: `a SYLK file (.slk): open it in Excel and ${saveAs}`,
  },
  { pattern: /^TABLE\r?\n0,1\r?\n/, is: `a DIF file: open it in a spreadsheet and ${saveAs}` },
  {
    pattern: /^(?:-- (?:MySQL|MariaDB|PostgreSQL|Dump)|(?:create table|insert into|drop table)\s)/i,
    is: 'SQL: export the table as CSV (UTF-8), or use a connector of type sql',
  },
  {
    pattern: /^version https:\/\/git-lfs\.github\.com\//,
    is: 'a Git LFS pointer: send the file itself',
  },
]

export function findTextFormat(sample: string): string | undefined {
  const start = sample.trimStart()
  const found = textFormats.find(({ pattern }) => pattern.test(start))?.is
  return found ?? (isMostlyText(start.slice(0, 4096)) ? undefined : 'no text: export the table as CSV (UTF-8)')
}

function isMostlyText(text: string): boolean {
  const controls = text.match(/[^\P{Cc}\s]/gu)?.length ?? 0
  return controls * 10 <= text.length
}
