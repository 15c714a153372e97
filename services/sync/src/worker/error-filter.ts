import { type RowError, errorsARun } from '../run/error-store.ts'

export interface ErrorLimits {
  readonly errors: number
  readonly warnings: number
}

/** Enough to recognize a source that is read wrongly. */
const defaultLimits: ErrorLimits = { errors: errorsARun, warnings: 1000 }

/** Warnings are counted separately, so that they displace no errors. */
export function createErrorFilter(limits = defaultLimits): (errors: readonly RowError[]) => RowError[] {
  const left = { ...limits }
  return (errors) =>
    errors.filter(({ severity }) => {
      if (severity === 'warning') return left.warnings-- > 0
      return left.errors-- > 0
    })
}
