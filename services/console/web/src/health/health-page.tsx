import { useCallback, useEffect, useState } from 'react'
import { type ApiKey, readKeyHealth } from '../api/keys.ts'
import { isAccessDenied } from '../api/request.ts'
import { AdminsOnly, useAdmin } from '../keys/admins-only.tsx'
import { keepQuery } from '../router.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { PageSkeleton } from '../ui/skeleton.tsx'
import { useResource } from '../ui/use-resource.ts'
import { HealthDialogs, type OpenDialog } from './health-dialogs.tsx'
import { KeysOfReason } from './keys-of-reason.tsx'
import { type ReasonInfo, findReason, reasonInfos } from './reasons.ts'

export function HealthPage() {
  const { isAdmin } = useAdmin()
  return isAdmin ? <Health /> : <AdminsOnly title="Key health" />
}

function Health() {
  const { resource, reload } = useResource(readKeyHealth)
  const [info, setInfo] = useState(() => findReason(location.search))
  const [open, setOpen] = useState<OpenDialog>()
  const [round, setRound] = useState(0)
  useEffect(() => keepQuery(info === undefined ? '' : `?reason=${info.reason}`), [info])
  const changed = useCallback(() => {
    reload()
    setRound((old) => old + 1)
  }, [reload])

  if (resource.state === 'loading') return <PageSkeleton />
  if (resource.state === 'failed') {
    if (isAccessDenied(resource.error)) return <AdminsOnly title="Key health" />
    return (
      <Page title="Key health">
        <Failure error={resource.error} title="The keys cannot be counted" onRetry={reload} />
      </Page>
    )
  }
  const counts = new Map(resource.value.reasons.map(({ reason, keys }) => [reason, keys]))
  const shown = reasonInfos.filter(({ reason }) => (counts.get(reason) ?? 0) > 0 || reason === info?.reason)
  return (
    <>
      <Page title="Key health" lead="Active keys that need attention, most urgent first.">
        {resource.value.reviewed ? undefined : (
          <Notice tone="info" title="Keys are still being counted">
            The policy changed, or Postern was upgraded. The numbers may grow for a minute.
          </Notice>
        )}
        {shown.length === 0 ? (
          <Empty icon="check" title="Nothing to do">
            No active key needs attention.
          </Empty>
        ) : (
          <div className="health-reasons" role="group" aria-label="Reasons">
            {shown.map((each) => (
              <ReasonCard
                key={each.reason}
                info={each}
                keys={counts.get(each.reason) ?? 0}
                isOpen={each.reason === info?.reason}
                onOpen={() => setInfo(each.reason === info?.reason ? undefined : each)}
              />
            ))}
          </div>
        )}
        {info === undefined ? undefined : (
          <KeysOfReason
            key={`${info.reason} ${round}`}
            info={info}
            total={counts.get(info.reason) ?? 0}
            onAct={(apiKey: ApiKey) => setOpen({ info, apiKey })}
          />
        )}
      </Page>
      <HealthDialogs open={open} onClose={() => setOpen(undefined)} onChanged={changed} />
    </>
  )
}

interface CardProps {
  readonly info: ReasonInfo
  readonly keys: number
  readonly isOpen: boolean
  readonly onOpen: () => void
}

function ReasonCard({ info, keys, isOpen, onOpen }: CardProps) {
  return (
    <button type="button" className="card health-reason" aria-pressed={isOpen} onClick={onOpen}>
      <strong className="health-count">{keys.toLocaleString()}</strong>
      <span className="health-title">{info.title}</span>
      <span className="help">{info.advice}</span>
    </button>
  )
}
