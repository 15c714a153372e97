import { useState } from 'react'
import { AdminsOnly } from '../keys/admins-only.tsx'
import type { PartialList } from '../api/list.ts'
import { type Connector, type Run, listConnectors, listRuns } from '../api/sync.ts'
import { Link, navigate } from '../router.tsx'
import { useSession } from '../shell/session-gate.tsx'
import { Button } from '../ui/button.tsx'
import { Failure } from '../ui/notice.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useFollowed } from '../ui/use-followed.ts'
import { useNow } from '../ui/use-now.ts'
import { LastRun, NextRun, StateBadge } from './connector-parts.tsx'
import { RunDialog } from './run-dialog.tsx'
import { RunsCard } from './runs-card.tsx'
import { canBeRun, connectorsEveryMs, datasetNames, runsEveryMs, typeNames } from './words.ts'

export function ConnectorsPage() {
  const { session } = useSession()
  return session.roles.includes('admin') ? <Connectors /> : <AdminsOnly title="Connectors" what="connectors" />
}

function Connectors() {
  const runs = useFollowed<PartialList<Run>>(listRuns, runsEveryMs)
  const connectors = useFollowed<PartialList<Connector>>(listConnectors, connectorsEveryMs)
  const [toRun, setToRun] = useState<Connector>()
  const now = useNow()
  const found = connectors.resource.state === 'ready' ? connectors.resource.value : undefined
  const known = found?.hasMore === false ? new Set(found.items.map(({ id }) => id)) : undefined
  const waiting = new Set(
    runs.resource.state === 'ready'
      ? runs.resource.value.items.flatMap(({ status, connector_id: id }) => (status === 'needs_approval' ? [id] : []))
      : [],
  )
  const setUp = (
    <Button look="primary" icon="plus" onPress={() => navigate('/connectors/new')}>
      New connector
    </Button>
  )
  return (
    <Page
      title="Connectors"
      actions={setUp}
      lead="Connectors import entities, the organization, people and test procedures into the audit universe."
    >
      {connectors.resource.state === 'failed' ? (
        <Failure error={connectors.resource.error} title="The connectors cannot be shown" onRetry={connectors.reload} />
      ) : connectors.resource.state === 'loading' || runs.resource.state === 'loading' ? (
        <Lines title="Connectors" />
      ) : connectors.resource.value.items.length === 0 ? (
        <Empty icon="sync" title="No connectors yet" action={setUp}>
          A connector reads a file, a directory, a database or an API and imports changes into the audit universe. Set
          one up, test it with a few rows, and schedule it.
        </Empty>
      ) : (
        <ul className="connectors">
          {connectors.resource.value.items.map((connector) => (
            <li key={connector.id} className="card connector">
              <div className="connector-head">
                <div className="connector-names">
                  <h2>
                    <Link className="key-link" to={`/connectors/${connector.id}`}>
                      {connector.name}
                    </Link>
                  </h2>
                  <p className="second-line">
                    <code>{connector.key}</code>
                  </p>
                </div>
                <StateBadge state={connector.state} isWaiting={waiting.has(connector.id)} />
              </div>
              <div className="connector-rest">
                <dl className="facts connector-facts">
                  <div>
                    <dt>Imports</dt>
                    <dd>{datasetNames[connector.dataset]}</dd>
                  </div>
                  <div>
                    <dt>Reads</dt>
                    <dd>{typeNames[connector.type]}</dd>
                  </div>
                  <div>
                    <dt>Last run</dt>
                    <dd>
                      <LastRun connector={connector} now={now} />
                    </dd>
                  </div>
                  <div>
                    <dt>Next run</dt>
                    <dd>
                      <NextRun connector={connector} now={now} />
                    </dd>
                  </div>
                </dl>
                {canBeRun(connector) ? (
                  <div>
                    <Button size="small" icon="sync" onPress={() => setToRun(connector)}>
                      Run…
                      <span className="for-listeners"> {connector.name}</span>
                    </Button>
                  </div>
                ) : undefined}
              </div>
            </li>
          ))}
        </ul>
      )}
      {runs.resource.state === 'failed' ? (
        <Failure error={runs.resource.error} title="The runs cannot be shown" onRetry={runs.reload} />
      ) : runs.resource.state === 'loading' || connectors.resource.state === 'loading' ? undefined : runs.resource.value
          .items.length === 0 ? undefined : (
        <RunsCard runs={runs.resource.value.items} now={now} connectors={known} />
      )}
      {toRun === undefined ? undefined : <RunDialog connector={toRun} onClose={() => setToRun(undefined)} />}
    </Page>
  )
}

function Lines({ title }: { readonly title: string }) {
  return (
    <div className="card skeleton-card" aria-busy="true">
      <span className="for-listeners" role="status">
        Loading {title.toLowerCase()}
      </span>
      <Skeleton width="40%" />
      <Skeleton width="70%" />
      <Skeleton width="55%" />
    </div>
  )
}
