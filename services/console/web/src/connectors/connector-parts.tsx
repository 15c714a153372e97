import type { Connector } from '../api/sync.ts'
import { Badge } from '../ui/badge.tsx'
import { When, distance } from '../ui/when.tsx'
import { states } from './words.ts'

/** Whether a connector works. */
export function StateBadge({ state }: Pick<Connector, 'state'>) {
  return (
    <Badge tone={states[state].tone} hasDot>
      {states[state].label}
    </Badge>
  )
}

interface Props {
  readonly connector: Connector
  readonly now: number
}

/** When it was last run. */
export function LastRun({ connector: { last_run_at: at }, now }: Props) {
  return at === null ? <span className="faint">Never</span> : <When at={at} as="distance" now={now} />
}

/** How long it is until the next run; `isExact`: and when that is. */
export function NextRun({ connector, now, isExact = false }: Props & { readonly isExact?: boolean }) {
  const { next_run_at: at, state } = connector
  if (at === null) return <span className="faint">{state === 'paused' ? 'Paused' : 'When asked'}</span>
  if (!isExact) return <When at={at} as="until" now={now} />
  return (
    <>
      <When at={at} />
      <span className="second-line">{distance(at, now)}</span>
    </>
  )
}
