import { type Connector, maxNodeDepth } from '@postern/contracts'
import { maxDepth } from '../push/rules.ts'

type Dataset = Connector['dataset']

export interface ImportRules {
  readonly keyField: string
  /** Null for rows that form no tree. */
  readonly parentField: string | null
  readonly maxDepth: number
  /** Null for rows that cannot become inactive. */
  readonly statusField: string | null
  readonly inactive: string | boolean | null
  /** A status that cannot become inactive. */
  readonly draft: string | null
  /** A field whose value only one active row can have. */
  readonly uniqueField: string | null
}

export const importRules: Readonly<Record<Dataset, ImportRules>> = {
  auditable_entities: {
    keyField: 'external_id',
    parentField: 'parent_external_id',
    maxDepth,
    statusField: 'status',
    inactive: 'archived',
    draft: 'draft',
    uniqueField: null,
  },
  org_structure: {
    keyField: 'node_key',
    parentField: 'parent_key',
    maxDepth: maxNodeDepth,
    statusField: 'status',
    inactive: 'inactive',
    draft: null,
    uniqueField: null,
  },
  people: {
    keyField: 'external_id',
    parentField: null,
    maxDepth: 1,
    statusField: 'active',
    inactive: false,
    draft: null,
    uniqueField: 'email',
  },
  test_procedures: {
    keyField: 'external_id',
    parentField: null,
    maxDepth: 1,
    statusField: null,
    inactive: null,
    draft: null,
    uniqueField: null,
  },
}

/** The seq of a row is its number, plus this for each level of its depth. */
export const seqsADepth = 10_000_000
/** Missing rows come after all trees. */
export const firstMissingSeq = 100 * seqsADepth

/** Returns the scope within which keys are unique: a dataset, or one hierarchy. */
export function scopeOf(dataset: Dataset, hierarchyKey: string | undefined): string {
  return dataset === 'org_structure' ? `${dataset}/${hierarchyKey ?? ''}` : dataset
}

export function parseScope(scope: string): { readonly dataset: Dataset; readonly hierarchy: string | undefined } {
  if (scope.startsWith('org_structure/')) return { dataset: 'org_structure', hierarchy: scope.slice(14) }
  if (scope === 'auditable_entities' || scope === 'people' || scope === 'test_procedures')
    return { dataset: scope, hierarchy: undefined }
  throw new Error('the import has an unknown scope')
}
