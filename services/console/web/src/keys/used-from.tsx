import type { ApiKeyUsage } from '@postern/contracts'
import { Skeleton } from '../ui/skeleton.tsx'
import type { Resource } from '../ui/use-resource.ts'
import { When } from '../ui/when.tsx'

interface Props {
  readonly usage: Resource<ApiKeyUsage>
  /** Empty if the key has no restriction. */
  readonly allowed: readonly string[]
}

const shownAtOnce = 8

/** Unknown addresses reveal a leak. */
export function UsedFrom({ usage, allowed }: Props) {
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
      {allowed.length === 0 ? (
        <p className="fine-print">Allowed from anywhere.</p>
      ) : (
        <p className="fine-print">Allowed from {allowed.join(', ')} alone.</p>
      )}
    </section>
  )
}

function Addresses({ addresses, dropped }: Pick<ApiKeyUsage, 'addresses'> & { readonly dropped: number }) {
  if (addresses.length === 0) return <p className="faint">Nowhere yet.</p>
  const rest = Math.max(0, addresses.length - shownAtOnce) + dropped
  return (
    <>
      <ul className="origins">
        {addresses.slice(0, shownAtOnce).map(({ address, first_used_at: at }) => (
          <li key={address}>
            <code>{address}</code>
            <span className="second-line">
              since <When at={at} />
            </span>
          </li>
        ))}
      </ul>
      {rest > 0 ? <p className="fine-print">And {rest === 1 ? 'one more' : `${rest} more`}.</p> : undefined}
    </>
  )
}
