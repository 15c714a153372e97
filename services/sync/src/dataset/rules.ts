import {
  type Connector,
  pushedEntitySchema,
  pushedNodeSchema,
  pushedPersonSchema,
  pushedTestProcedureSchema,
} from '@postern/contracts'
import { type RowRuleFault, checkEntityRow, checkNodeRow, checkTestProcedureRow } from '@postern/contracts/internal'
import type { z } from 'zod'
import { type RowWarning, warningsOfEntity } from './warnings.ts'

export type Dataset = Connector['dataset']

export interface DatasetRules {
  readonly schema: z.ZodObject
  readonly keyField: string
  /** Null if rows are not a tree. */
  readonly parentField: string | null
  readonly statusField: string | null
  /** The status of a row that cannot become inactive. */
  readonly draft: string | null
  /** Fields whose text is parsed, for sources that have only text. */
  readonly numbers: readonly string[]
  readonly booleans: readonly string[]
  readonly lists: readonly string[]
  readonly faultsOf?: (row: Readonly<Record<string, unknown>>) => readonly RowRuleFault[]
  readonly warningsOf?: (row: Readonly<Record<string, unknown>>) => readonly RowWarning[]
}

export const datasetRules: Readonly<Record<Dataset, DatasetRules>> = {
  auditable_entities: {
    schema: pushedEntitySchema,
    keyField: 'external_id',
    parentField: 'parent_external_id',
    statusField: 'status',
    draft: 'draft',
    numbers: ['audit_frequency_months', 'inherent_risk.score', 'residual_risk.score'],
    booleans: [],
    lists: [],
    faultsOf: checkEntityRow,
    warningsOf: warningsOfEntity,
  },
  org_structure: {
    schema: pushedNodeSchema,
    keyField: 'node_key',
    parentField: 'parent_key',
    statusField: 'status',
    draft: null,
    numbers: [],
    booleans: [],
    lists: ['entities'],
    faultsOf: checkNodeRow,
  },
  people: {
    schema: pushedPersonSchema,
    keyField: 'external_id',
    parentField: null,
    statusField: 'active',
    draft: null,
    numbers: [],
    booleans: ['active'],
    lists: [],
  },
  test_procedures: {
    schema: pushedTestProcedureSchema,
    keyField: 'external_id',
    parentField: null,
    statusField: null,
    draft: null,
    numbers: ['population_size', 'sample_size'],
    booleans: [],
    lists: ['entities'],
    faultsOf: checkTestProcedureRow,
  },
}
