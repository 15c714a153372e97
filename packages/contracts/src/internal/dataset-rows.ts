import type { z } from 'zod'
import type { datasets } from '../sync/connector.ts'
import { pushedEntitySchema } from '../sync/routes.ts'
import { pushedNodeSchema } from '../universe/hierarchy.ts'
import { pushedPersonSchema } from '../universe/person.ts'
import { pushedTestProcedureSchema } from '../universe/test-procedure.ts'

/** The rows of a dataset, as pushes and connectors bring them. */
export interface DatasetRows {
  readonly schema: z.ZodObject
  readonly keyField: string
  /** Null if rows are not a tree. */
  readonly parentField: string | null
  /** Null for rows that cannot become inactive. */
  readonly statusField: string | null
  /** The status of a row that cannot become inactive. */
  readonly draft: string | null
}

export const datasetRows = {
  auditable_entities: {
    schema: pushedEntitySchema,
    keyField: 'external_id',
    parentField: 'parent_external_id',
    statusField: 'status',
    draft: 'draft',
  },
  org_structure: {
    schema: pushedNodeSchema,
    keyField: 'node_key',
    parentField: 'parent_key',
    statusField: 'status',
    draft: null,
  },
  people: {
    schema: pushedPersonSchema,
    keyField: 'external_id',
    parentField: null,
    statusField: 'active',
    draft: null,
  },
  test_procedures: {
    schema: pushedTestProcedureSchema,
    keyField: 'external_id',
    parentField: null,
    statusField: null,
    draft: null,
  },
} as const satisfies Readonly<Record<(typeof datasets)[number], DatasetRows>>
