import { type KeyPolicy, readKeyPolicy } from '../api/keys.ts'
import { ApiProblem } from '../api/request.ts'
import { AdminsOnly } from '../keys/admins-only.tsx'
import { expiringDays, oldDays } from '../keys/select-keys.ts'
import { useSession } from '../shell/session-gate.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Page } from '../ui/page.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useResource } from '../ui/use-resource.ts'

/** Settings → Key policy: what holds for every key of the tenant. Read only: the platform's operator sets it. */
export function PolicyPage() {
  const { session } = useSession()
  return session.roles.includes('admin') ? <Policy /> : <AdminsOnly title="Key policy" />
}

function Policy() {
  const { resource, reload } = useResource<KeyPolicy>(readKeyPolicy)
  if (resource.state === 'failed' && resource.error instanceof ApiProblem && resource.error.problem.status === 403) {
    return <AdminsOnly title="Key policy" />
  }
  return (
    <Page title="Key policy" lead="What holds for every API key of your organization.">
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The policy cannot be shown" onRetry={reload} />
      ) : (
        <section className="card" aria-labelledby="policy-title">
          <h2 id="policy-title">In force</h2>
          <dl className="rules">
            <div>
              <dt>Longest life of a key</dt>
              <dd>
                {resource.state === 'ready' ? (
                  <strong>{inWords(resource.value.max_key_days)}</strong>
                ) : (
                  <Skeleton width="6rem" />
                )}
                <span className="help">A later date is refused when a key is generated or rotated.</span>
              </dd>
            </div>
            <div>
              <dt>Allowed addresses</dt>
              <dd>
                <strong>Optional</strong>
                <span className="help">A key with a list of networks is refused from everywhere else.</span>
              </dd>
            </div>
            <div>
              <dt>Reminders</dt>
              <dd>
                <strong>
                  {expiringDays} days before the end, and after {oldDays} days
                </strong>
                <span className="help">Keys that end soon or are old are called out in the list.</span>
              </dd>
            </div>
            <div>
              <dt>Revocation</dt>
              <dd>
                <strong>At once, for good</strong>
                <span className="help">
                  A revoked key never works again. Every gateway refuses it when the answer is there.
                </span>
              </dd>
            </div>
          </dl>
        </section>
      )}
      <Notice tone="info" title="To change the policy">
        It is set by whoever operates Postern for you. Ask them for a shorter life of keys.
      </Notice>
    </Page>
  )
}

function inWords(days: number): string {
  const years = days / 365
  if (days >= 365 && Number.isInteger(years)) return years === 1 ? '1 year' : `${years} years`
  return days === 1 ? '1 day' : `${days} days`
}
