import { createNumberSeries } from '@postern/tenant-db'

export { NoFreeNumberError, withNumberSeries } from '@postern/tenant-db'

/** References such as F-2026-0042. */
export const findingNumbers = createNumberSeries({ schema: 'findings', name: 'finding', counter: 'reference_counter' })

/** References such as AP-2026-0042. */
export const actionPlanNumbers = createNumberSeries({
  schema: 'findings',
  name: 'action_plan',
  counter: 'action_plan_counter',
})
