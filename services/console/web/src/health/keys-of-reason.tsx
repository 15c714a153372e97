import { useCallback } from 'react'
import { type ApiKey, exportKeysByReason, listKeysByReason } from '../api/keys.ts'
import { LastUse } from '../keys/key-parts.tsx'
import { Link, navigate } from '../router.tsx'
import { Button } from '../ui/button.tsx'
import { Failure } from '../ui/notice.tsx'
import { saveFile } from '../ui/save-file.ts'
import { Skeleton } from '../ui/skeleton.tsx'
import { useChange } from '../ui/use-change.ts'
import { useNow } from '../ui/use-now.ts'
import { useResource } from '../ui/use-resource.ts'
import { When } from '../ui/when.tsx'
import type { ReasonInfo } from './reasons.ts'

interface Props {
  readonly info: ReasonInfo
  readonly total: number
  readonly onAct: (key: ApiKey) => void
}

export function KeysOfReason({ info, total, onAct }: Props) {
  const { reason, title } = info
  const load = useCallback(async (signal: AbortSignal) => await listKeysByReason(reason, signal), [reason])
  const { resource, reload } = useResource(load)
  const exporting = useChange()
  const now = useNow()
  const exportCsv = async () => {
    await exporting.run(async (signal) => saveFile(await exportKeysByReason(reason, signal), `keys-${reason}.csv`))
  }
  return (
    <section className="card" aria-labelledby="reason-title">
      <div className="card-head">
        <h2 id="reason-title">{title}</h2>
        <Button
          size="small"
          icon="file"
          isBusy={exporting.isBusy}
          onPress={() => {
            void exportCsv()
          }}
        >
          Export CSV
        </Button>
      </div>
      {exporting.failure === undefined ? undefined : (
        <Failure error={exporting.failure} title="The keys were not exported" />
      )}
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The keys cannot be shown" onRetry={reload} />
      ) : resource.state === 'loading' ? (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="70%" />
          <Skeleton width="60%" />
        </div>
      ) : resource.value.length === 0 ? (
        <p className="faint">No key has this reason any more.</p>
      ) : (
        <table className="plain-table">
          <thead>
            <tr>
              <th scope="col">Key</th>
              <th scope="col">Owner</th>
              <th scope="col">Last used</th>
              <th scope="col">Expires</th>
              <th scope="col">Action</th>
            </tr>
          </thead>
          <tbody>
            {resource.value.map((key) => (
              <tr key={key.id}>
                <th scope="row">
                  <Link to={`/settings/api-keys/${key.id}`} className="text-link">
                    {key.label}
                  </Link>
                  <span className="second-line">{key.masked}</span>
                </th>
                <td data-title="Owner">
                  {key.owner === null ? <span className="faint">Nobody</span> : key.owner.name}
                </td>
                <td data-title="Last used">
                  <LastUse apiKey={key} now={now} />
                </td>
                <td data-title="Expires">
                  <When at={key.expires_at} as="day" />
                </td>
                <td data-title="Action">
                  <Button
                    size="small"
                    look={info.action === 'revoke' ? 'danger' : 'plain'}
                    aria-label={`${info.actionLabel}: ${key.label}`}
                    onPress={() => {
                      if (info.action === 'open') navigate(`/settings/api-keys/${key.id}`)
                      else onAct(key)
                    }}
                  >
                    {info.actionLabel}
                  </Button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {resource.state === 'ready' && resource.value.length < total ? (
        <p className="fine-print">
          The newest {resource.value.length} of {total.toLocaleString()}. The export has all of them.
        </p>
      ) : undefined}
    </section>
  )
}
