import type { Run } from '../api/sync.ts'
import { Link } from '../router.tsx'
import { Badge } from '../ui/badge.tsx'
import { When } from '../ui/when.tsx'
import { keyOf } from './run-rules.ts'
import { changesInWords, modeNames, statuses } from './words.ts'

interface Props {
  readonly runs: readonly Run[]
  readonly now: number
  /** Undefined unless all active connectors are known. */
  readonly connectors?: ReadonlySet<string> | undefined
}

export function RunsCard({ runs, now, connectors }: Props) {
  const isGone = ({ connector_id: id }: Run) => id !== null && connectors !== undefined && !connectors.has(id)
  return (
    <section className="card" aria-labelledby="runs-title">
      <h2 id="runs-title">Runs</h2>
      <ul>
        {runs.map((run) => (
          <li key={run.id} className="run">
            <span className="run-names">
              <Link className="key-link" to={`/connectors/runs/${run.id}`}>
                {keyOf(run) ?? 'A retired connector'}
              </Link>
              <span className="second-line">
                {keyOf(run) !== undefined && isGone(run) ? 'The connector is retired · ' : ''}
                {modeNames[run.mode]} · {run.created_by.label}
              </span>
            </span>
            <span className="run-changes">{changesInWords(run)}</span>
            <span className="run-when">
              <When at={run.created_at} as="distance" now={now} />
            </span>
            <span className="run-state">
              <Badge tone={statuses[run.status].tone} hasDot>
                {statuses[run.status].label}
              </Badge>
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}
