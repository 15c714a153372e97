/** Why a run failed, as its row keeps it. After `outcome_unknown` the universe may hold the rows. */
type RunFailure = 'refused' | 'conflict' | 'unreachable' | 'outcome_unknown' | 'internal' | 'interrupted'

interface RunCounts {
  readonly created: number
  readonly updated: number
  readonly unchanged: number
  /** Of a hierarchy: nodes that a full push has made inactive. */
  readonly deactivated?: number | undefined
}

/** How a run ended. */
export type RunOutcome =
  | { readonly status: 'succeeded'; readonly counts: RunCounts }
  | { readonly status: 'failed'; readonly failure: RunFailure }

/** Who made a run, as its row keeps it. */
export interface Actor {
  readonly type: 'api_key' | 'user' | 'operator' | 'connector'
  readonly id: string
  readonly label: string
}

/**
 * Age, in seconds, at which a run that is still running is taken for one whose process has died: far beyond the time that
 * any run may take.
 */
export const interruptedAfterSeconds = 300
