import { useCallback, useState } from 'react'
import { createAttempt } from '../../api/attempt.ts'
import { type TaggedConnector, changeConnector, createConnector, getConnector } from '../../api/sync.ts'
import { AdminsOnly } from '../../keys/admins-only.tsx'
import { navigate } from '../../router.tsx'
import { useSession } from '../../shell/session-gate.tsx'
import { Empty, Page, BackLink } from '../../ui/page.tsx'
import { PageSkeleton } from '../../ui/skeleton.tsx'
import { useResource } from '../../ui/use-resource.ts'
import { timeZone } from '../../ui/when.tsx'
import { columnsOf } from '../seen-columns.ts'
import { ConnectorFailure } from '../connector-parts.tsx'
import { ConnectorForm } from './connector-form.tsx'
import { changeOf, creationOf, draftOf, newDraft } from './draft.ts'

export function NewConnectorPage() {
  const { session } = useSession()
  const [attempt] = useState(createAttempt)
  if (!session.roles.includes('admin')) return <AdminsOnly title="New connector" what="connectors" />
  return (
    <Page
      title="New connector"
      above={<BackLink to="/connectors" label="Connectors" />}
      lead="Nothing is read or changed until you test or run it."
    >
      <ConnectorForm
        start={newDraft(timeZone)}
        before={undefined}
        columns={[]}
        onCancel={() => navigate('/connectors')}
        onSave={async (draft, signal) => {
          const wanted = creationOf(draft)
          const { id } = await attempt.carryOut(wanted, async (name) => await createConnector(wanted, name, signal))
          navigate(`/connectors/${id}`)
        }}
      />
    </Page>
  )
}

export function EditConnectorPage({ id }: { readonly id: string }) {
  const { session } = useSession()
  return session.roles.includes('admin') ? <Edit id={id} /> : <AdminsOnly title="Connector" what="connectors" />
}

function Edit({ id }: { readonly id: string }) {
  const load = useCallback(async (signal: AbortSignal) => await getConnector(id, { signal }), [id])
  const { resource, reload, set } = useResource<TaggedConnector>(load)
  const backLink = <BackLink to={`/connectors/${id}`} label="The connector" />
  if (resource.state === 'loading') return <PageSkeleton />
  if (resource.state === 'failed') {
    return <ConnectorFailure error={resource.error} onRetry={reload} />
  }
  const { connector, etag } = resource.value
  const start = draftOf(connector, timeZone)
  return (
    <Page title={`Change ${connector.name}`} above={backLink} lead="Changes apply from the next run.">
      {start === undefined ? (
        <Empty icon="sync" title="This connector has no settings">
          It represents data that programs push.
        </Empty>
      ) : (
        <ConnectorForm
          key={id}
          start={start}
          before={connector}
          columns={columnsOf(id)}
          onCancel={() => navigate(`/connectors/${id}`)}
          onReload={async () => {
            const value = await getConnector(id)
            set({ state: 'ready', value })
            return draftOf(value.connector, timeZone)
          }}
          onSave={async (draft, signal) => {
            await changeConnector(id, changeOf(draft, connector), etag, signal)
            navigate(`/connectors/${id}`)
          }}
        />
      )}
    </Page>
  )
}
