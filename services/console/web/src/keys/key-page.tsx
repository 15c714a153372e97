import { lazy, useCallback, useMemo, useRef, useState } from 'react'
import type { ApiKey, ApiKeyUsage, NamedScope, RefusedRequest } from '@postern/contracts'
import { getKey, listEvents, readKeyUsage } from '../api/keys.ts'
import { ApiProblem, isAccessDenied } from '../api/request.ts'
import { Link } from '../router.tsx'
import { DialogBoundary, PageBoundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Empty, Page, BackLink } from '../ui/page.tsx'
import { PageSkeleton } from '../ui/skeleton.tsx'
import { useNow } from '../ui/use-now.ts'
import { useResource } from '../ui/use-resource.ts'
import { When, distance } from '../ui/when.tsx'
import { AdminsOnly, useAdmin } from './admins-only.tsx'
import { AuditTrail } from './audit-trail.tsx'
import { CallableRoutes } from './callable-routes.tsx'
import { ExplainCard } from './explain-card.tsx'
import { ScopeList, StateBadge } from './key-parts.tsx'
import { RefusalsCard } from './refusals-card.tsx'
import { RightSizeCard } from './right-size-card.tsx'
import { RotationCard } from './rotation-card.tsx'
import { useKeys } from './keys-store.tsx'
import { attentionOf, rotatedIds } from './select-keys.ts'
import { UsedFrom } from './used-from.tsx'
import { UsageChart } from './usage-chart.tsx'
import { useKeyPolicy } from './use-key-policy.ts'
import { useReloadAtExpiry } from './use-reload-at-expiry.ts'

const EditDialog = lazy(async () => ({ default: (await import('./edit-dialog.tsx')).EditDialog }))
const RevokeDialog = lazy(async () => ({ default: (await import('./revoke-dialog.tsx')).RevokeDialog }))
const WhyDialog = lazy(async () => ({ default: (await import('./why-dialog.tsx')).WhyDialog }))
const RotateDialog = lazy(async () => ({ default: (await import('./rotate-dialog.tsx')).RotateDialog }))

export function KeyPage({ id }: { readonly id: string }) {
  const { isAdmin, wasAdmin } = useAdmin()
  return wasAdmin ? <Key id={id} isAdmin={isAdmin} /> : <AdminsOnly title="API key" />
}

function BackToKeys() {
  const { listQuery } = useKeys()
  return <BackLink to={`/settings/api-keys${listQuery.current}`} label="API keys" />
}

const backLink = <BackToKeys />

type Open = { readonly apiKey: ApiKey } & (
  | { readonly kind: 'edit'; readonly addresses?: readonly string[] }
  | { readonly kind: 'revoke' }
  | { readonly kind: 'rotate'; readonly scopes?: readonly NamedScope[] }
  | { readonly kind: 'why'; readonly refusal: RefusedRequest }
)

function Key({ id, isAdmin }: { readonly id: string; readonly isAdmin: boolean }) {
  const loadKey = useCallback(async (signal: AbortSignal) => await getKey(id, signal), [id])
  const loadEvents = useCallback(async (signal: AbortSignal) => await listEvents(id, signal), [id])
  const loadUsage = useCallback(async (signal: AbortSignal) => await readKeyUsage(id, signal), [id])
  const key = useResource(loadKey)
  const usage = useResource(loadUsage)
  const events = useResource(loadEvents)
  const [open, setOpen] = useState<Open>()
  const [revision, setRevision] = useState(0)
  const changed = () => {
    key.reload()
    events.reload()
    setRevision((old) => old + 1)
  }
  return (
    <>
      <PageBoundary>
        {isAdmin ? (
          <KeyDetails
            keyRead={key}
            usage={usage}
            events={events}
            revision={revision}
            onOpen={setOpen}
            onChanged={changed}
          />
        ) : (
          <AdminsOnly title="API key" />
        )}
      </PageBoundary>
      <KeyDialogs open={open} onClose={() => setOpen(undefined)} onChanged={changed} />
    </>
  )
}

type Read<T> = Pick<ReturnType<typeof useResource<T>>, 'resource' | 'reload'>

interface KeyPageProps {
  readonly keyRead: Read<ApiKey>
  readonly usage: Read<ApiKeyUsage>
  readonly events: Read<Awaited<ReturnType<typeof listEvents>>>
  /** Increases with each change. */
  readonly revision: number
  readonly onOpen: (open: Open) => void
  readonly onChanged: () => void
}

/** Returns the newest successor of the key, from the list or from the audit trail. */
function successorOf(
  id: string,
  keys: readonly ApiKey[] | undefined,
  events: KeyPageProps['events']['resource'],
): string | undefined {
  const listed = keys?.find(({ rotated_from: from, state }) => from === id && state !== 'revoked')
  if (listed !== undefined || events.state !== 'ready') return listed?.id
  const made = events.value.items.find(({ detail }) => typeof detail['rotated_to'] === 'string')?.detail['rotated_to']
  return typeof made === 'string' ? made : undefined
}

function KeyDetails({ keyRead: key, usage, events, revision, onOpen, onChanged }: KeyPageProps) {
  const now = useNow()
  const wasShown = useRef(false)
  const { resource } = key
  const shown = useMemo(() => (resource.state === 'ready' ? [resource.value] : undefined), [resource])
  useReloadAtExpiry(shown, now, key.reload)
  const { keys, put } = useKeys()
  const rotated = useMemo(() => rotatedIds(keys ?? []), [keys])

  const isUseAwaited = usage.resource.state === 'loading' && !wasShown.current
  if (key.resource.state === 'loading' || (key.resource.state === 'ready' && isUseAwaited)) return <PageSkeleton />
  wasShown.current = true
  if (key.resource.state === 'failed') {
    const { error } = key.resource
    if (isAccessDenied(error)) return <AdminsOnly title="API key" />
    if (error instanceof ApiProblem && [400, 404].includes(error.problem.status)) {
      return (
        <Page title="No such key" above={backLink}>
          <Empty icon="key" title="This key does not exist in your organization" />
        </Page>
      )
    }
    return (
      <Page title="API key" above={backLink}>
        <Failure error={error} title="The key cannot be shown" onRetry={key.reload} />
      </Page>
    )
  }
  const apiKey = key.resource.value
  const rotate = () => onOpen({ kind: 'rotate', apiKey })
  const successorId = successorOf(apiKey.id, keys, events.resource)
  const narrowed = (next: ApiKey) => {
    put(next)
    usage.reload()
    onChanged()
  }
  const isRotated = keys === undefined ? successorId !== undefined : rotated.has(apiKey.id)
  const [oldId, newId] = successorId === undefined ? [apiKey.rotated_from, apiKey.id] : [apiKey.id, successorId]
  return (
    <Page
      title={apiKey.label}
      above={backLink}
      lead={
        <span className="key-lead">
          <code className="masked">{apiKey.masked}</code>
          <StateBadge state={apiKey.state} />
        </span>
      }
      actions={
        <>
          {apiKey.state === 'revoked' ? undefined : (
            <Button icon="pen" onPress={() => onOpen({ kind: 'edit', apiKey })}>
              Edit
            </Button>
          )}
          {apiKey.state === 'active' && !isRotated ? (
            <Button icon="rotate" onPress={rotate}>
              Rotate
            </Button>
          ) : undefined}
          {apiKey.state === 'revoked' ? undefined : (
            <Button look="danger" icon="ban" onPress={() => onOpen({ kind: 'revoke', apiKey })}>
              Revoke
            </Button>
          )}
        </>
      }
    >
      <OwnerLeft apiKey={apiKey} onEdit={() => onOpen({ kind: 'edit', apiKey })} />
      {isRotated ? undefined : <Warnings apiKey={apiKey} now={now} onRotate={rotate} />}
      {oldId === null ? undefined : (
        <RotationCard
          key={`${oldId} ${revision}`}
          oldId={oldId}
          newId={newId}
          now={now}
          onEnd={(old) => onOpen({ kind: 'revoke', apiKey: old })}
        />
      )}
      <Facts apiKey={apiKey} now={now} />
      {apiKey.state === 'active' && usage.resource.state === 'ready' ? (
        <RightSizeCard
          apiKey={apiKey}
          size={usage.resource.value.right_sizing}
          onNarrowed={narrowed}
          onRotate={isRotated ? undefined : (scopes) => onOpen({ kind: 'rotate', apiKey, scopes })}
        />
      ) : undefined}
      <UsageChart usage={usage.resource} onRetry={usage.reload} />
      <UsedFrom
        usage={usage.resource}
        apiKey={apiKey}
        onLimit={(addresses) => onOpen({ kind: 'edit', apiKey, addresses })}
      />
      <RefusalsCard usage={usage.resource} onWhy={(refusal) => onOpen({ kind: 'why', apiKey, refusal })} />
      <ExplainCard key={apiKey.id} id={apiKey.id} />
      <div className="key-columns">
        <CallableRoutes
          scopes={apiKey.scopes}
          isActive={apiKey.state === 'active'}
          used={usage.resource.state === 'ready' ? usage.resource.value.routes : undefined}
        />
        <div className="key-side">
          <AuditTrail events={events.resource} onRetry={events.reload} />
        </div>
      </div>
    </Page>
  )
}

interface DialogsProps {
  readonly open: Open | undefined
  readonly onClose: () => void
  readonly onChanged: () => void
}

/** Outside of the page, so that dialogs survive a failed read or a changed role. */
function KeyDialogs({ open, onClose, onChanged }: DialogsProps) {
  const { put } = useKeys()
  const changed = (next: ApiKey) => {
    put(next)
    onChanged()
  }
  return (
    <DialogBoundary open={open} onClose={onClose}>
      {open?.kind === 'edit' ? (
        <EditDialog apiKey={open.apiKey} addresses={open.addresses} onClose={onClose} onChanged={changed} />
      ) : undefined}
      {open?.kind === 'why' ? <WhyDialog id={open.apiKey.id} refusal={open.refusal} onClose={onClose} /> : undefined}
      {open?.kind === 'revoke' ? (
        <RevokeDialog apiKey={open.apiKey} onClose={onClose} onRevoked={changed} />
      ) : undefined}
      {open?.kind === 'rotate' ? (
        <RotateDialog apiKey={open.apiKey} scopes={open.scopes} onClose={onClose} onRotated={changed} />
      ) : undefined}
    </DialogBoundary>
  )
}

function Warnings({ apiKey, now, onRotate }: { apiKey: ApiKey; now: number; onRotate: () => void }) {
  const { rotationDays } = useKeyPolicy()
  const [attention] = attentionOf(apiKey, now, rotationDays)
  if (attention === undefined) return undefined
  const action = (
    <Button size="small" onPress={onRotate}>
      Rotate
    </Button>
  )
  return attention === 'expiring' ? (
    <Notice tone="warning" title={`This key expires ${distance(apiKey.expires_at, now)}`} action={action}>
      After that, its requests are rejected.
    </Notice>
  ) : (
    <Notice tone="warning" title={`This key is older than ${rotationDays} days`} action={action}>
      Old keys have often been copied to many places. Replace it with a new key.
    </Notice>
  )
}

function OwnerLeft({ apiKey, onEdit }: { readonly apiKey: ApiKey; readonly onEdit: () => void }) {
  const { owner, state } = apiKey
  if (owner === null || owner.left_at === null || state !== 'active') return undefined
  return (
    <Notice
      tone="warning"
      title={`The owner, ${owner.name}, has left`}
      action={
        <Button size="small" onPress={onEdit}>
          Choose another owner
        </Button>
      }
    >
      The key still works. Choose an owner who answers for it, or revoke it.
    </Notice>
  )
}

function Facts({ apiKey, now }: { readonly apiKey: ApiKey; readonly now: number }) {
  const { revoked_at: revokedAt, revoked_by: revokedBy, revoke_reason: reason, rotated_from: from } = apiKey
  return (
    <dl className="card facts facts-grid">
      <div>
        <dt>Scopes</dt>
        <dd>
          <ScopeList scopes={apiKey.scopes} />
        </dd>
      </div>
      <div>
        <dt>Owner</dt>
        <dd>
          <Owner owner={apiKey.owner} />
        </dd>
      </div>
      <div>
        <dt>Created</dt>
        <dd>
          <When at={apiKey.created_at} />
          <span className="second-line">by {apiKey.created_by.label}</span>
        </dd>
      </div>
      {revokedAt === null ? (
        <div>
          <dt>{apiKey.state === 'expired' ? 'Expired' : 'Expires'}</dt>
          <dd>
            <When at={apiKey.expires_at} />
            <span className="second-line">{distance(apiKey.expires_at, now)}</span>
          </dd>
        </div>
      ) : (
        <div>
          <dt>Revoked</dt>
          <dd>
            <When at={revokedAt} />
            <span className="second-line">by {revokedBy?.label}</span>
            {reason === null ? undefined : <span className="second-line">“{reason}”</span>}
          </dd>
        </div>
      )}
      <div>
        <dt>Last used</dt>
        <dd>
          <Moment at={apiKey.last_used_at} now={now} />
        </dd>
      </div>
      <div>
        <dt>Last refused</dt>
        <dd>
          <Moment at={apiKey.last_refused_at} now={now} />
        </dd>
      </div>
      {apiKey.note === null ? undefined : (
        <div>
          <dt>Note</dt>
          <dd className="key-note">{apiKey.note}</dd>
        </div>
      )}
      {from === null ? undefined : (
        <div>
          <dt>Replaces</dt>
          <dd>
            <Link to={`/settings/api-keys/${from}`} className="text-link">
              The previous key
            </Link>
          </dd>
        </div>
      )}
    </dl>
  )
}

function Owner({ owner }: Pick<ApiKey, 'owner'>) {
  if (owner === null) return <span className="faint">Nobody</span>
  return (
    <>
      {owner.name}
      {owner.contact === null ? undefined : <span className="second-line">{owner.contact}</span>}
      {owner.left_at === null ? undefined : (
        <span className="second-line warn">
          left <When at={owner.left_at} as="day" />
        </span>
      )}
    </>
  )
}

function Moment({ at, now }: { readonly at: string | null; readonly now: number }) {
  if (at === null) return <span className="faint">Never</span>
  return (
    <>
      <When at={at} as="distance" now={now} />
      <span className="second-line">
        <When at={at} />
      </span>
    </>
  )
}
