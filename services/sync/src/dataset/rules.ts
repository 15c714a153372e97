import {
  type Connector,
  pushedEntitySchema,
  pushedNodeSchema,
  pushedPersonSchema,
  pushedTestProcedureSchema,
} from '@postern/contracts'
import {
  type OwnFault,
  ownFaultsOfEntity,
  ownFaultsOfNode,
  ownFaultsOfTestProcedure,
} from '@postern/contracts/internal'
import type { z } from 'zod'
import { type RowWarning, warningsOfEntity } from './warnings.ts'

export type Dataset = Connector['dataset']

/** How datasets differ. Everything else is the same for all. */
export interface DatasetRules {
  /** The schema of a row in the universe. */
  readonly schema: z.ZodObject
  /** The field that identifies a row. */
  readonly keyField: string
  /** The field with the key of the parent row; null if rows are not a tree. */
  readonly parentField: string | null
  /** The field with the status; null if the dataset has none. */
  readonly statusField: string | null
  /** The status of a row that cannot become inactive, or active again; null if each can. */
  readonly draft: string | null
  /** Fields whose text is parsed as a number, boolean or list, for sources that have only text. */
  readonly numbers: readonly string[]
  readonly booleans: readonly string[]
  readonly lists: readonly string[]
  /** Returns faults of a row that its schema does not find; undefined if the dataset needs no such check. */
  readonly faultsOf?: (row: Readonly<Record<string, unknown>>) => readonly OwnFault[]
  /** Returns warnings about a valid row; undefined if the dataset needs no such check. */
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
    faultsOf: ownFaultsOfEntity,
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
    faultsOf: ownFaultsOfNode,
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
    faultsOf: ownFaultsOfTestProcedure,
  },
}
