/** Parses CSV (RFC 4180). Throws on an unfinished quotation or record. */
export function parseCsv(text: string, separator: ',' | ';' | '\t' = ','): string[][] {
  const records: string[][] = []
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|([^"${separator}\\r\\n]*))(${separator}|\\r\\n)`, 'y')
  let record: string[] = []
  while (cell.lastIndex < text.length) {
    const at = cell.lastIndex
    const found = cell.exec(text)
    if (found === null) throw new Error(`no cell of a CSV at character ${at}`)
    record.push(found[1]?.replaceAll('""', '"') ?? found[2] ?? '')
    if (found[3] === separator) continue
    records.push(record)
    record = []
  }
  return records
}
