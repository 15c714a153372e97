import { type Connector, type Run, type SafetyBreach, finalRunStatuses } from '@postern/contracts'

/** Why a push failed, as its row keeps it. After `outcome_unknown` the universe may hold the rows. */
type PushFailure = 'refused' | 'conflict' | 'unreachable' | 'outcome_unknown' | 'internal' | 'interrupted'

/** What the universe has said of the rows of a push: nothing of those that it was not asked about, or gave no answer to. */
interface PushCounts {
  readonly valid: number
  readonly invalid: number
  readonly created: number
  readonly updated: number
  readonly unchanged: number
  /** Of a hierarchy: nodes that a full push has made inactive. */
  readonly deactivated: number
}

/** How a push ended. One of two parts may have failed with the second, behind what the first has changed. */
export type RunOutcome =
  | { readonly status: 'succeeded'; readonly counts: PushCounts }
  | { readonly status: 'failed'; readonly failure: PushFailure; readonly counts: PushCounts }

/** Who made a run, as its row keeps it. */
export interface Actor {
  readonly type: 'api_key' | 'user' | 'operator' | 'connector'
  readonly id: string
  readonly label: string
}

/**
 * Age, in seconds, at which a push that is still running is taken for one whose process has died: far beyond the time
 * that any push may take.
 */
export const interruptedAfterSeconds = 300

/** What can be asked of a run as it stands: the last words of the paths below it. Of a push, nothing: its changes are not kept. */
export function movesOf({
  status,
  counts,
  connector_id,
  trigger,
}: Pick<Run, 'status' | 'counts' | 'connector_id' | 'trigger'>): readonly ('approve' | 'cancel' | 'rollback')[] {
  if (trigger === 'push') return []
  if (status === 'needs_approval') return ['approve', 'cancel']
  if (!finalRunStatuses.some((final) => final === status)) return ['cancel']
  return connector_id !== null && counts.applied > 0 ? ['rollback'] : []
}

/** What the limits of a connector are held against. */
export interface Impact {
  readonly valid: number
  /** Rows that the connector had brought before. */
  readonly known: number
  /** Of those, what the source has no longer; not what it had lost by the run before already. */
  readonly missing: number
  /** What becomes inactive: because the source has it no longer, or because the source says so. */
  readonly deactivated: number
  /** Changes of rows that were there, deactivations among them. */
  readonly changed: number
}

/**
 * The limits that a run would break. Shares are of what the connector has brought before; one that has brought nothing yet may
 * change what others have made, which is held against its own rows.
 */
export function breachesOf(
  safety: Connector['safety'],
  missingPolicy: Connector['missing_policy'],
  { valid, known, missing, deactivated, changed }: Impact,
): SafetyBreach[] {
  const breaches: SafetyBreach[] = []
  const check = (limit: SafetyBreach['limit'], actual: number, allowed: number, isBroken: boolean): void => {
    if (isBroken) breaches.push({ limit, actual: twoDecimals(actual, allowed), allowed })
  }
  const base = known === 0 ? valid : known
  // Rows that were missing, or are new to the connector, are changed as well, and are no part of the base: all is no more than all.
  const share = (part: number) => (base === 0 ? 0 : Math.min(100, (part / base) * 100))
  check('min_rows', valid, safety.min_rows, valid < safety.min_rows)
  // Rows that are gone are among those that become inactive where that is what is made of them, and come on top where they are flagged.
  const lost =
    missingPolicy === 'deactivate'
      ? Math.max(missing, deactivated)
      : deactivated + (missingPolicy === 'flag' ? missing : 0)
  check('max_deactivate', lost, safety.max_deactivate, lost > safety.max_deactivate)
  const lostShare = share(lost)
  check('max_deactivate_pct', lostShare, safety.max_deactivate_pct, lostShare > safety.max_deactivate_pct)
  const moved = share(changed)
  check('max_change_pct', moved, safety.max_change_pct, moved > safety.max_change_pct)
  return breaches
}

/** A share that is just above what is allowed is said as more than it, and not as the same. */
function twoDecimals(actual: number, allowed: number): number {
  const nearest = Math.round(actual * 100) / 100
  return actual > allowed && nearest <= allowed ? Math.ceil((allowed + 0.001) * 100) / 100 : nearest
}

const final: ReadonlySet<Run['status']> = new Set(['succeeded', 'partial', 'failed', 'cancelled'])

export function isFinal(status: Run['status']): boolean {
  return final.has(status)
}
