import { type Connector, type Run, type SafetyBreach, finalRunStatuses } from '@postern/contracts'

/** Why a push failed. After `outcome_unknown` the universe may have applied it. */
type PushFailure = 'refused' | 'conflict' | 'unreachable' | 'outcome_unknown' | 'internal' | 'interrupted'

/** What the universe reported about the rows of a push; none if it was not asked or did not answer. */
interface PushCounts {
  readonly valid: number
  readonly invalid: number
  readonly created: number
  readonly updated: number
  readonly unchanged: number
  /** Nodes that a full push of a hierarchy deactivated. */
  readonly deactivated: number
}

export type RunOutcome =
  | { readonly status: 'succeeded'; readonly counts: PushCounts }
  | { readonly status: 'failed'; readonly failure: PushFailure; readonly counts: PushCounts }

export interface Actor {
  readonly type: 'api_key' | 'user' | 'operator' | 'connector'
  readonly id: string
  readonly label: string
}

/** Age in seconds after which a running push counts as interrupted. No push takes this long. */
export const interruptedAfterSeconds = 300

/** Returns the possible actions, as the last segments of their paths. A push has none. */
export function actionsOf({
  status,
  counts,
  connector_id,
  trigger,
}: Pick<Run, 'status' | 'counts' | 'connector_id' | 'trigger'>): readonly ('approve' | 'cancel' | 'rollback')[] {
  if (trigger === 'push') return []
  if (status === 'needs_approval') return ['approve', 'cancel']
  if (!isFinal(status)) return ['cancel']
  return connector_id !== null && counts.applied > 0 ? ['rollback'] : []
}

export interface Impact {
  readonly valid: number
  /** Rows that the connector had brought before. */
  readonly known: number
  /** Rows that went missing since the previous run. */
  readonly missing: number
  /** Rows that become inactive, because they are missing or the source says so. */
  readonly deactivated: number
  /** People who lose access although they do not become inactive, because they were or are created so. */
  readonly lockedOut: number
  /** Changes of existing rows, including deactivations. */
  readonly changed: number
}

/** Returns the limits that a run would exceed. Shares refer to the rows that the connector delivered before. */
export function breachesOf(
  safety: Connector['safety'],
  missingPolicy: Connector['missing_policy'],
  { valid, known, missing, deactivated, lockedOut, changed }: Impact,
): SafetyBreach[] {
  const base = known === 0 ? valid : known
  // With the policy `deactivate`, missing rows are already among the deactivated ones.
  const gone =
    missingPolicy === 'deactivate'
      ? Math.max(missing, deactivated)
      : deactivated + (missingPolicy === 'flag' ? missing : 0)
  return [
    ...breachOf('min_rows', valid, safety.min_rows, valid < safety.min_rows),
    ...lossBreachesOf(safety, gone + lockedOut, base),
    ...aboveLimit('max_change_pct', shareOf(changed, base), safety.max_change_pct),
  ]
}

/** Returns the limits that are exceeded if `lost` of `base` rows become inactive or lose access. */
export function lossBreachesOf(safety: Connector['safety'], lost: number, base: number): SafetyBreach[] {
  return [
    ...aboveLimit('max_deactivate', lost, safety.max_deactivate),
    ...aboveLimit('max_deactivate_pct', shareOf(lost, base), safety.max_deactivate_pct),
  ]
}

function aboveLimit(limit: SafetyBreach['limit'], actual: number, allowed: number): SafetyBreach[] {
  return breachOf(limit, actual, allowed, actual > allowed)
}

function breachOf(limit: SafetyBreach['limit'], actual: number, allowed: number, isBroken: boolean): SafetyBreach[] {
  return isBroken ? [{ limit, actual: twoDecimals(actual, allowed), allowed }] : []
}

/** Capped, because returning and new rows count as changes but not in the base. */
function shareOf(part: number, base: number): number {
  return base === 0 ? 0 : Math.min(100, (part / base) * 100)
}

/** Rounds up, so that a share just above the limit does not look equal to it. */
function twoDecimals(actual: number, allowed: number): number {
  const nearest = Math.round(actual * 100) / 100
  return actual > allowed && nearest <= allowed ? Math.ceil((allowed + 0.001) * 100) / 100 : nearest
}

export function isFinal(status: Run['status']): boolean {
  return finalRunStatuses.some((final) => final === status)
}
