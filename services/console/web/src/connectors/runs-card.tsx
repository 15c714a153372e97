import type { Run } from '../api/sync.ts'
import { Link } from '../router.tsx'
import { Badge } from '../ui/badge.tsx'
import { When } from '../ui/when.tsx'
import { changesInWords, modeNames, statuses } from './words.ts'

/** Runs, newest first, each a way to its page. */
export function RunsCard({ runs, now }: { readonly runs: readonly Run[]; readonly now: number }) {
  return (
    <section className="card" aria-labelledby="runs-title">
      <h2 id="runs-title">Runs</h2>
      <ul className="runs">
        {runs.map((run) => (
          <li key={run.id} className="run">
            <span className="run-names">
              <Link className="key-link" to={`/connectors/runs/${run.id}`}>
                {run.connector_key ?? 'A retired connector'}
              </Link>
              <span className="second-line">
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
