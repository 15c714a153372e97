import { workbookMediaType } from '@postern/contracts'
import { readXlsx } from 'hucre/xlsx'

/** Requests a list as a workbook and returns how many rows it has, with the header. */
export async function rowsOfWorkbook(url: string, authorization: string): Promise<number> {
  const response = await fetch(url, { headers: { authorization } })
  const type = response.headers.get('content-type')
  if (type !== workbookMediaType) throw new Error(`the answer is ${String(type)}: ${await response.text()}`)
  const { sheets } = await readXlsx(new Uint8Array(await response.arrayBuffer()))
  return sheets[0]?.rows.length ?? 0
}
