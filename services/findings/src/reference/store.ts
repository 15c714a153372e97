import { createNumberSeries } from '@postern/tenant-db'

export { NoFreeNumberError, withNumberSeries } from '@postern/tenant-db'

export const findingNumbers = createNumberSeries({ schema: 'findings', name: 'finding', counter: 'reference_counter' })

export const actionPlanNumbers = createNumberSeries({
  schema: 'findings',
  name: 'action_plan',
  counter: 'action_plan_counter',
})
