/** The records of a CSV (RFC 4180). Throws where a quotation or a record does not end. */
export function parseCsv(text: string): string[][] {
  const records: string[][] = []
  const cell = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/y
  let record: string[] = []
  while (cell.lastIndex < text.length) {
    const at = cell.lastIndex
    const found = cell.exec(text)
    if (found === null) throw new Error(`no cell of a CSV at character ${at}`)
    record.push(found[1]?.replaceAll('""', '"') ?? found[2] ?? '')
    if (found[3] === ',') continue
    records.push(record)
    record = []
  }
  return records
}
