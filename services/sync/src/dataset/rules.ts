import type { Connector } from '@postern/contracts'
import {
  type DatasetRows,
  type RowRuleFault,
  checkEntityRow,
  checkNodeRow,
  checkTestProcedureRow,
  datasetRows,
} from '@postern/contracts/internal'
import { type RowWarning, warningsOfEntity } from './warnings.ts'

export type Dataset = Connector['dataset']

export interface DatasetRules extends DatasetRows {
  /** Fields whose text is parsed, for sources that have only text. */
  readonly numbers: readonly string[]
  readonly booleans: readonly string[]
  readonly lists: readonly string[]
  readonly faultsOf?: (row: Readonly<Record<string, unknown>>) => readonly RowRuleFault[]
  readonly warningsOf?: (row: Readonly<Record<string, unknown>>) => readonly RowWarning[]
}

const plain = { numbers: [], booleans: [], lists: [] } as const

export const datasetRules: Readonly<Record<Dataset, DatasetRules>> = {
  auditable_entities: {
    ...datasetRows.auditable_entities,
    ...plain,
    numbers: ['audit_frequency_months', 'inherent_risk.score', 'residual_risk.score'],
    faultsOf: checkEntityRow,
    warningsOf: warningsOfEntity,
  },
  org_structure: { ...datasetRows.org_structure, ...plain, lists: ['entities'], faultsOf: checkNodeRow },
  people: { ...datasetRows.people, ...plain, booleans: ['active'] },
  test_procedures: {
    ...datasetRows.test_procedures,
    ...plain,
    numbers: ['population_size', 'sample_size'],
    lists: ['entities'],
    faultsOf: checkTestProcedureRow,
  },
}
