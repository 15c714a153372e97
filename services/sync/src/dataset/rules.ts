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

/** What the engine has to know of a dataset; everything else it treats alike. */
export interface DatasetRules {
  /** A row as the universe takes it. */
  readonly schema: z.ZodObject
  /** The field by which a row is known again. */
  readonly keyField: string
  /** The field that holds the key of the row above; null where rows are no tree. */
  readonly parentField: string | null
  /** The field that is compared with those of other rows of a source, beside the key; null where there is none. */
  readonly comparedField: string | null
  /** The field, beside the key, whose value no two rows have; null where there is none. */
  readonly uniqueField: string | null
  readonly maxDepth: number
  /** Whether rows that are new are made many at a time, and compared with each other by key and parent alone. */
  readonly isMadeInBlocks: boolean
  /** The field that says whether a row is active, and what stands there when it is not; null where there is none. */
  readonly statusField: string | null
  readonly inactive: string | boolean | null
  /** What stands there of a row that cannot become inactive, nor be so again; null where each can. */
  readonly draft: string | null
  /** Fields whose text is read as a number, a yes or no, or a list, where a source knows text alone. */
  readonly numbers: readonly string[]
  readonly booleans: readonly string[]
  readonly lists: readonly string[]
  /** What is wrong with a row by itself beyond its schema; undefined where nothing can be. */
  readonly faultsOf?: (row: Readonly<Record<string, unknown>>) => readonly OwnFault[]
  /** What is doubtful in a row that can be taken in; undefined where nothing can be. */
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

/** Which rows of the universe have keys in common: those of a dataset; of hierarchies, of one of them. */
export function scopeOf(dataset: Dataset, hierarchyKey: string | undefined): string {
  return dataset === 'org_structure' ? `${dataset}/${hierarchyKey ?? ''}` : dataset
}
