import { useState } from 'react'
import type { ApiKey, ApiKeyUsage } from '@postern/contracts'
import { Button } from '../ui/button.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import type { Resource } from '../ui/use-resource.ts'
import { When } from '../ui/when.tsx'

interface Props {
  readonly usage: Resource<ApiKeyUsage>
  readonly apiKey: ApiKey
  /** Offers to limit the key to these addresses. */
  readonly onLimit: (addresses: readonly string[]) => void
}

const shownAtOnce = 8
const mostAllowed = 100

/** Shows where the key is used from. Unknown addresses can reveal a leak. */
export function UsedFrom({ usage, apiKey, onLimit }: Props) {
  const allowed = apiKey.allowed_addresses
  return (
    <section className="card" aria-labelledby="from-title">
      <h2 id="from-title">Called from</h2>
      {usage.state === 'loading' ? (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="45%" />
          <Skeleton width="60%" />
        </div>
      ) : usage.state === 'ready' ? (
        <Addresses addresses={usage.value.addresses} dropped={usage.value.addresses_dropped} />
      ) : undefined}
      <p className="fine-print">
        {allowed.length === 0 ? 'Allowed from anywhere.' : `Allowed only from ${allowed.join(', ')}.`}
      </p>
      {usage.state === 'ready' && apiKey.state === 'active' ? (
        <Limit accepted={acceptedFrom(usage.value)} allowed={allowed} onLimit={onLimit} />
      ) : undefined}
    </section>
  )
}

function acceptedFrom({ addresses }: ApiKeyUsage): readonly string[] {
  return addresses.flatMap(({ address, requests }) => (requests > 0 ? [address] : []))
}

/** Returns the address as the API writes it in a list. */
function networkOf(address: string): string {
  return `${address}/${address.includes(':') ? 128 : 32}`
}

function Limit({
  accepted,
  allowed,
  onLimit,
}: Pick<Props, 'onLimit'> & { readonly accepted: readonly string[]; readonly allowed: readonly string[] }) {
  const isLimited =
    accepted.every((address) => allowed.includes(networkOf(address))) && allowed.length === accepted.length
  if (accepted.length === 0 || accepted.length > mostAllowed || isLimited) return undefined
  return (
    <div>
      <Button size="small" onPress={() => onLimit(accepted)}>
        {accepted.length === 1
          ? 'Limit the key to this address…'
          : `Limit the key to these ${accepted.length} addresses…`}
      </Button>
      <p className="fine-print">Those with accepted requests in the last 30 days. You can change the list first.</p>
    </div>
  )
}

function Addresses({ addresses, dropped }: Pick<ApiKeyUsage, 'addresses'> & { readonly dropped: number }) {
  const [isWhole, setWhole] = useState(false)
  if (addresses.length === 0) return <p className="faint">Not used yet.</p>
  const hidden = isWhole ? 0 : Math.max(0, addresses.length - shownAtOnce)
  return (
    <>
      <table className="plain-table stacking-table">
        <thead>
          <tr>
            <th scope="col">Address</th>
            <th scope="col">First seen</th>
            <th scope="col">Last seen</th>
            <th scope="col" className="number">
              Accepted
            </th>
            <th scope="col" className="number">
              Refused
            </th>
          </tr>
        </thead>
        <tbody>
          {addresses.slice(0, addresses.length - hidden).map((each) => (
            <tr key={each.address}>
              <th scope="row">
                <code>{each.address}</code>
              </th>
              <td data-title="First seen">
                <When at={each.first_used_at} as="day" />
              </td>
              <td data-title="Last seen">
                <When at={each.last_used_at} />
              </td>
              <td data-title="Accepted" className="number">
                {each.requests.toLocaleString()}
              </td>
              <td data-title="Refused" className={each.refusals === 0 ? 'number faint' : 'number danger'}>
                {each.refusals.toLocaleString()}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {hidden === 0 ? undefined : (
        <div>
          <Button size="small" look="quiet" onPress={() => setWhole(true)}>
            Show {hidden} more
          </Button>
        </div>
      )}
      {dropped === 0 ? undefined : (
        <p className="fine-print">
          {dropped === 1 ? 'One older address is' : `${dropped} older addresses are`} not listed.
        </p>
      )}
    </>
  )
}
