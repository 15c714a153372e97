import type { Connector } from '@postern/contracts'
import { type Statement, statement } from '../sql/store.ts'
import { parseScope } from './rules.ts'

type Dataset = Connector['dataset']

/** Creates a statement per dataset. The last parameter of hierarchies is the key of the hierarchy. */
export function byDataset(
  name: string,
  sql: (dataset: Dataset) => string,
): (scope: string, values: readonly unknown[]) => Statement {
  const made = {
    auditable_entities: statement(`${name}_entities`, sql('auditable_entities')),
    org_structure: statement(`${name}_nodes`, sql('org_structure')),
    people: statement(`${name}_people`, sql('people')),
    test_procedures: statement(`${name}_test_procedures`, sql('test_procedures')),
  }
  return (scope, values) => {
    const { dataset, hierarchy } = parseScope(scope)
    return made[dataset](hierarchy === undefined ? values : [...values, hierarchy])
  }
}
