import {
  type Connector,
  maxNodeDepth,
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
  /** The field, besides the key, that is compared with other rows of a source; null if the dataset has none. */
  readonly comparedField: string | null
  /** The field, besides the key, that is unique; null if the dataset has none. */
  readonly uniqueField: string | null
  readonly maxDepth: number
  /** Whether new rows are created in blocks and compared with each other only by key and parent. */
  readonly isMadeInBlocks: boolean
  /** The field with the status, and its value for an inactive row; null if the dataset has none. */
  readonly statusField: string | null
  readonly inactive: string | boolean | null
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
    comparedField: 'parent_external_id',
    uniqueField: null,
    maxDepth: 12,
    isMadeInBlocks: true,
    statusField: 'status',
    inactive: 'archived',
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
    comparedField: 'parent_key',
    uniqueField: null,
    maxDepth: maxNodeDepth,
    isMadeInBlocks: false,
    statusField: 'status',
    inactive: 'inactive',
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
    comparedField: 'email',
    uniqueField: 'email',
    maxDepth: 1,
    isMadeInBlocks: false,
    statusField: 'active',
    inactive: false,
    draft: null,
    numbers: [],
    booleans: ['active'],
    lists: [],
  },
  test_procedures: {
    schema: pushedTestProcedureSchema,
    keyField: 'external_id',
    parentField: null,
    comparedField: null,
    uniqueField: null,
    maxDepth: 1,
    isMadeInBlocks: true,
    statusField: null,
    inactive: null,
    draft: null,
    numbers: ['population_size', 'sample_size'],
    booleans: [],
    lists: ['entities'],
    faultsOf: ownFaultsOfTestProcedure,
  },
}

/** Returns the scope of unique keys: the dataset, or one hierarchy. */
export function scopeOf(dataset: Dataset, hierarchyKey: string | undefined): string {
  return dataset === 'org_structure' ? `${dataset}/${hierarchyKey ?? ''}` : dataset
}
