import { ApiProblem } from '../api/request.ts'
import type { Connector } from '../api/sync.ts'
import { Badge } from '../ui/badge.tsx'
import { Failure } from '../ui/notice.tsx'
import { Empty, Page, BackLink } from '../ui/page.tsx'
import { When, distance } from '../ui/when.tsx'
import { isPushed, states } from './words.ts'

export function StateBadge({ state, isWaiting = false }: Pick<Connector, 'state'> & { readonly isWaiting?: boolean }) {
  if (isWaiting) {
    return (
      <Badge tone="warning" hasDot>
        Needs approval
      </Badge>
    )
  }
  return (
    <Badge tone={states[state].tone} hasDot>
      {states[state].label}
    </Badge>
  )
}

export function ConnectorFailure({ error, onRetry }: { readonly error: unknown; readonly onRetry: () => void }) {
  const isNone = error instanceof ApiProblem && [400, 404].includes(error.problem.status)
  return (
    <Page title={isNone ? 'No such connector' : 'Connector'} above={<BackLink to="/connectors" label="Connectors" />}>
      {isNone ? (
        <Empty icon="sync" title="This connector does not exist in your organization" />
      ) : (
        <Failure error={error} title="The connector cannot be shown" onRetry={onRetry} />
      )}
    </Page>
  )
}

interface Props {
  readonly connector: Connector
  readonly now: number
}

export function LastRun({ connector: { last_run_at: at }, now }: Props) {
  return at === null ? <span className="faint">Never</span> : <When at={at} as="distance" now={now} />
}

export function NextRun({ connector, now, isExact = false }: Props & { readonly isExact?: boolean }) {
  const { next_run_at: at, state } = connector
  if (at === null) {
    const words = state === 'paused' ? 'Paused' : isPushed(connector) ? 'When pushed' : 'On demand'
    return <span className="faint">{words}</span>
  }
  if (!isExact) return <When at={at} as="until" now={now} />
  return (
    <>
      <When at={at} />
      <span className="second-line">{distance(at, now)}</span>
    </>
  )
}
