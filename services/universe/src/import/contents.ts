import type { Connector } from '@postern/contracts'
import { type ImportRow, datasetRows } from '@postern/contracts/internal'
import { problem } from '@postern/service-kit'

/** Throws 422 if a row does not match the dataset. The sync service never sends such rows. */
export function assertContents(dataset: Connector['dataset'], rows: readonly ImportRow[]): void {
  const { schema } = datasetRows[dataset]
  for (const { row, content } of rows) {
    if (content === undefined || schema.safeParse(parseJson(content)).success) continue
    throw problem('invalid_content', { detail: `Row ${row} does not match the dataset ${dataset}.` })
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
