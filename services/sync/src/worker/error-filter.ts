import { type RowError, errorsARun } from '../run/error-store.ts'

export interface ErrorLimits {
  readonly errors: number
  readonly warnings: number
}

/** Enough to recognize a source that is read wrongly. */
const usualLimits: ErrorLimits = { errors: errorsARun, warnings: 1000 }

/** Warnings are counted separately, so that they displace no errors. */
export function createErrorFilter(limits = usualLimits): (told: readonly RowError[]) => RowError[] {
  let { errors, warnings } = limits
  return (told) =>
    told.filter(({ severity }) => {
      if (severity === 'warning') return warnings-- > 0
      return errors-- > 0
    })
}
