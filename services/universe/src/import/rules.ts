import { type Connector, maxNodeDepth } from '@postern/contracts'
import { type DatasetRows, datasetRows } from '@postern/contracts/internal'
import { maxDepth } from '../push/rules.ts'

type Dataset = Connector['dataset']

export interface ImportRules extends DatasetRows {
  readonly maxDepth: number
  readonly inactive: string | boolean | null
  /** A field whose value only one active row can have. */
  readonly uniqueField: string | null
}

export const importRules: Readonly<Record<Dataset, ImportRules>> = {
  auditable_entities: { ...datasetRows.auditable_entities, maxDepth, inactive: 'archived', uniqueField: null },
  org_structure: { ...datasetRows.org_structure, maxDepth: maxNodeDepth, inactive: 'inactive', uniqueField: null },
  people: { ...datasetRows.people, maxDepth: 1, inactive: false, uniqueField: 'email' },
  test_procedures: { ...datasetRows.test_procedures, maxDepth: 1, inactive: null, uniqueField: null },
}

/** SQL: the kinds of rows that change something. */
export const changeOps = `('create', 'update', 'move', 'deactivate', 'reactivate')`

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
