import { type RowError, errorsARun } from '../run/error-store.ts'

/** Most of each that a run keeps. */
export interface ErrorLimits {
  readonly errors: number
  readonly warnings: number
}

/** Warnings are few: as many as a source that is read wrongly as a whole needs to be seen. */
const keptARun: ErrorLimits = { errors: errorsARun, warnings: 1000 }

/**
 * Of what is told of the rows of a run, in their order, what is kept. Warnings are counted apart: however many there are, each
 * row that is refused is found in the list.
 */
export function createErrorKeeper(limits = keptARun): (told: readonly RowError[]) => RowError[] {
  let { errors, warnings } = limits
  return (told) =>
    told.filter(({ severity }) => {
      if (severity === 'warning') return warnings-- > 0
      return errors-- > 0
    })
}
