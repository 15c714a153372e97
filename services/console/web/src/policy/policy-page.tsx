import { lazy, useState } from 'react'
import { isAccessDenied } from '../api/request.ts'
import { type TaggedPolicy, readKeyPolicy } from '../api/tenant.ts'
import { AdminsOnly } from '../keys/admins-only.tsx'
import { expiringDays } from '../keys/select-keys.ts'
import { useSession } from '../shell/session-gate.tsx'
import { DialogBoundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { Failure } from '../ui/notice.tsx'
import { Page } from '../ui/page.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useResource } from '../ui/use-resource.ts'
import { When } from '../ui/when.tsx'
import { daysInWords, rulesInWords } from './words.ts'

const PolicyDialog = lazy(async () => ({ default: (await import('./policy-dialog.tsx')).PolicyDialog }))

export function PolicyPage() {
  const { session } = useSession()
  return session.roles.includes('admin') ? <Policy /> : <AdminsOnly title="Key policy" />
}

function Policy() {
  const { resource, reload, set } = useResource<TaggedPolicy>(readKeyPolicy)
  const [isChanging, setChanging] = useState(false)
  if (resource.state === 'failed' && isAccessDenied(resource.error)) {
    return <AdminsOnly title="Key policy" />
  }
  const policy = resource.state === 'ready' ? resource.value.policy : undefined
  return (
    <Page
      title="Key policy"
      lead="The rules for every API key of your organization."
      actions={
        <Button icon="pen" isDisabled={policy === undefined} onPress={() => setChanging(true)}>
          Change
        </Button>
      }
    >
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The policy cannot be shown" onRetry={reload} />
      ) : (
        <section className="card" aria-labelledby="policy-title">
          <h2 id="policy-title">In force</h2>
          <dl className="rules">
            <div>
              <dt>Maximum lifetime of a key</dt>
              <dd>
                {policy === undefined ? <Skeleton width="6rem" /> : <strong>{daysInWords(policy.max_key_days)}</strong>}
                <span className="help">Applies when a key is generated or rotated.</span>
              </dd>
            </div>
            <div>
              <dt>Required networks</dt>
              <dd>
                {policy === undefined ? (
                  <Skeleton width="9rem" />
                ) : policy.required_addresses.length === 0 ? (
                  <strong>None</strong>
                ) : (
                  <span className="networks">
                    {policy.required_addresses.map((network) => (
                      <code key={network} className="scope">
                        {network}
                      </code>
                    ))}
                  </span>
                )}
                <span className="help">
                  {policy === undefined || policy.required_addresses.length === 0
                    ? 'Keys can be limited to addresses but need not be.'
                    : 'Every new key must list addresses within these networks.'}
                </span>
              </dd>
            </div>
            <div>
              <dt>Reminders</dt>
              <dd>
                <strong>
                  {expiringDays} days before expiry, and after {policy?.rotation_days ?? '…'} days
                </strong>
                <span className="help">The list marks keys that expire soon or are old.</span>
              </dd>
            </div>
            <div>
              <dt>Further rules</dt>
              <dd>
                {policy === undefined ? <Skeleton width="9rem" /> : <strong>{rulesInWords(policy)}</strong>}
                <span className="help">They apply when a key is generated or rotated.</span>
              </dd>
            </div>
            <div>
              <dt>Revocation</dt>
              <dd>
                <strong>At once, for good</strong>
                <span className="help">
                  A revoked key never works again. Every gateway rejects it when the revocation returns.
                  {policy === undefined || policy.revoke_idle_days === null
                    ? ''
                    : ` Keys are revoked after ${daysInWords(policy.revoke_idle_days)} without a use.`}
                </span>
              </dd>
            </div>
            <div>
              <dt>Audit events</dt>
              <dd>
                {policy === undefined ? (
                  <Skeleton width="6rem" />
                ) : (
                  <strong>Kept for {daysInWords(policy.audit_retention_days)}</strong>
                )}
                <span className="help">Older events are deleted.</span>
              </dd>
            </div>
          </dl>
          <p className="fine-print">
            {policy === undefined ? (
              <Skeleton width="14rem" />
            ) : policy.changed_at === null ? (
              'Unchanged since your organization was set up.'
            ) : (
              <>
                Changed by {policy.changed_by?.label}, <When at={policy.changed_at} />.
              </>
            )}
          </p>
        </section>
      )}
      <DialogBoundary open={isChanging} onClose={() => setChanging(false)}>
        {isChanging && resource.state === 'ready' ? (
          <PolicyDialog
            current={resource.value}
            onClose={() => setChanging(false)}
            onChanged={(value) => set({ state: 'ready', value })}
            onOutdated={() => {
              setChanging(false)
              reload()
            }}
          />
        ) : undefined}
      </DialogBoundary>
    </Page>
  )
}
