import { useState } from 'react'
import type { ApiKeyUsage, RefusedRequest } from '@postern/contracts'
import { routes } from 'virtual:routes'
import { Button } from '../ui/button.tsx'
import type { Resource } from '../ui/use-resource.ts'
import { When } from '../ui/when.tsx'

/** By problem code. */
const reasons: Readonly<Record<string, string>> = {
  key_revoked: 'The key was revoked',
  key_expired: 'The key had expired',
  tenant_suspended: 'The organization was suspended',
  address_not_allowed: 'The key does not allow the address',
  not_found: 'There is no such path',
  method_not_allowed: 'The path does not support the method',
  insufficient_scope: 'The key lacks the scope',
  role_required: 'Only people can do this',
  too_many_requests: 'Too many requests',
}

const shownAtOnce = 6

interface Props {
  readonly usage: Resource<ApiKeyUsage>
  readonly onWhy: (refusal: RefusedRequest) => void
}

/** Shows what was refused in the last 30 days, by reason, and the last refused requests. */
export function RefusalsCard({ usage, onWhy }: Props) {
  if (usage.state !== 'ready') return undefined
  const { refused, other_refusals: other, last_refusals: last } = usage.value
  return (
    <section className="card" aria-labelledby="refused-title">
      <h2 id="refused-title">Refused requests</h2>
      {refused.length === 0 ? (
        <p className="faint">No request was refused in the last 30 days.</p>
      ) : (
        <ul className="reasons">
          {refused.slice(0, shownAtOnce).map(({ code, route, refusals, last_refused_at: at }) => (
            <li key={`${code} ${route}`}>
              <span className="reason-count danger">{refusals.toLocaleString()}</span>
              <span>
                {reasonOf(code)}
                <span className="second-line">
                  {nameOf(route)} last <When at={at} />
                </span>
              </span>
            </li>
          ))}
        </ul>
      )}
      {other === 0 ? undefined : (
        <p className="fine-print">
          {other.toLocaleString()} more refusals are counted without address and route, because there were too many on
          one day.
        </p>
      )}
      <LastRefusals last={last} onWhy={onWhy} />
    </section>
  )
}

function reasonOf(code: string): string {
  return reasons[code] ?? code
}

function nameOf(route: string | null): string {
  if (route === null) return ''
  const known = routes.find(({ id }) => id === route)
  return known === undefined ? `${route},` : `${known.method} ${known.path.replace('/api/v1', '')},`
}

function LastRefusals({ last, onWhy }: Pick<Props, 'onWhy'> & { readonly last: ApiKeyUsage['last_refusals'] }) {
  const [isWhole, setWhole] = useState(false)
  if (last.length === 0) return undefined
  const shown = isWhole ? last : last.slice(0, shownAtOnce)
  return (
    <>
      <table className="plain-table stacking-table">
        <caption className="table-title">Last refusals</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Reason</th>
            <th scope="col">Request</th>
            <th scope="col">From</th>
            <th scope="col">Request id</th>
            <th scope="col">
              <span className="for-listeners">Explanation</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((refusal) => {
            const { at, request_id: id, method, route, address, code } = refusal
            return (
              <tr key={`${at} ${id}`}>
                <td data-title="Time">
                  <When at={at} />
                </td>
                <td data-title="Reason">
                  {reasonOf(code)}
                  <span className="second-line">{code}</span>
                </td>
                <td data-title="Request">
                  {method} <code>{route ?? 'no route'}</code>
                </td>
                <td data-title="From">
                  <code>{address}</code>
                </td>
                <td data-title="Request id">
                  <code className="request-id">{id}</code>
                </td>
                <td>
                  <Button size="small" aria-label={`Why was ${id} refused?`} onPress={() => onWhy(refusal)}>
                    Why?
                  </Button>
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
      {shown.length === last.length ? undefined : (
        <div>
          <Button size="small" look="quiet" onPress={() => setWhole(true)}>
            Show {last.length - shown.length} more
          </Button>
        </div>
      )}
    </>
  )
}
