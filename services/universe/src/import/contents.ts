import {
  type Connector,
  pushedEntitySchema,
  pushedNodeSchema,
  pushedPersonSchema,
  pushedTestProcedureSchema,
} from '@postern/contracts'
import type { ImportRow } from '@postern/contracts/internal'
import { problem } from '@postern/service-kit'
import type { z } from 'zod'

const schemas: Readonly<Record<Connector['dataset'], z.ZodType>> = {
  auditable_entities: pushedEntitySchema,
  org_structure: pushedNodeSchema,
  people: pushedPersonSchema,
  test_procedures: pushedTestProcedureSchema,
}

/** Throws 422 if a row does not match the dataset. The sync service never sends such rows. */
export function assertContents(dataset: Connector['dataset'], rows: readonly ImportRow[]): void {
  for (const { row, content } of rows) {
    if (content === undefined || schemas[dataset].safeParse(parseJson(content)).success) continue
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
