import { useCallback } from 'react'
import type { ApiKey, ApiKeyUsage } from '@postern/contracts'
import { getKey, readKeyUsage } from '../api/keys.ts'
import { Link } from '../router.tsx'
import { Button } from '../ui/button.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { useResource } from '../ui/use-resource.ts'
import { When } from '../ui/when.tsx'

interface Props {
  readonly oldId: string
  readonly newId: string
  readonly now: number
  /** Offers to revoke the old key. */
  readonly onEnd: (old: ApiKey) => void
}

interface Side {
  readonly key: ApiKey
  readonly usage: ApiKeyUsage
}

const dayMs = 86_400_000

async function readSide(id: string, signal: AbortSignal): Promise<Side> {
  const [key, usage] = await Promise.all([getKey(id, signal), readKeyUsage(id, signal)])
  return { key, usage }
}

/** Shows a rotation while the old key works: who still uses it, and when it can end. */
export function RotationCard({ oldId, newId, now, onEnd }: Props) {
  const load = useCallback(
    async (signal: AbortSignal) => await Promise.all([readSide(oldId, signal), readSide(newId, signal)]),
    [oldId, newId],
  )
  const { resource, reload } = useResource(load)
  if (resource.state === 'loading') return undefined
  if (resource.state === 'failed') {
    return <Failure error={resource.error} title="The rotation cannot be shown" onRetry={reload} />
  }
  const [old, successor] = resource.value
  if (old.key.state !== 'active' || successor.key.state !== 'active') return undefined
  return (
    <section className="card" aria-labelledby="rotation-title">
      <h2 id="rotation-title">Rotation</h2>
      {old.key.pending_overlap === null ? undefined : (
        <p>The overlap ({old.key.pending_overlap}) begins with the first use of the new key.</p>
      )}
      <OldKey old={old} successor={successor} now={now} onEnd={onEnd} />
      <table className="plain-table stacking-table">
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Last used</th>
            <th scope="col">Expires</th>
            <th scope="col" className="number">
              Accepted in 30 days
            </th>
            <th scope="col" className="number">
              Refused
            </th>
          </tr>
        </thead>
        <tbody>
          <Row name="Old key" side={old} />
          <Row name="New key" side={successor} />
        </tbody>
      </table>
    </section>
  )
}

function OldKey({ old, successor, now, onEnd }: Omit<Props, 'oldId' | 'newId'> & { old: Side; successor: Side }) {
  const { created_at: made, last_used_at: used, expires_at: end } = old.key
  const isSilent = now - Date.parse(used ?? made) >= dayMs
  const isNewUsed = successor.key.last_used_at !== null
  if (isSilent) {
    const action = (
      <Button size="small" onPress={() => onEnd(old.key)}>
        End the old key now…
      </Button>
    )
    return (
      <Notice tone={isNewUsed ? 'success' : 'info'} title="The old key has not been used for a day" action={action}>
        {isNewUsed
          ? 'The program uses the new key. You can end the old one.'
          : 'The new key has not been used yet. Make sure that its program has it.'}
      </Notice>
    )
  }
  const since = Date.parse(successor.key.created_at)
  const from = old.usage.addresses.filter((each) => each.requests > 0 && Date.parse(each.last_used_at) > since)
  const isUsed = used !== null && Date.parse(used) > since
  return (
    <Notice
      tone={isUsed ? 'warning' : 'info'}
      title={
        used === null
          ? 'The old key has not been used yet'
          : isUsed
            ? 'The old key is still used'
            : 'The old key was used within the last day'
      }
    >
      {from.length === 0 ? undefined : `From ${from.map(({ address }) => address).join(', ')}. `}
      Give the new key to the program before the old one expires on <When at={end} />.
      {isNewUsed ? undefined : ' The new key has not been used yet.'}
    </Notice>
  )
}

function Row({ name, side: { key, usage } }: { readonly name: string; readonly side: Side }) {
  const accepted = usage.days.reduce((sum, { requests }) => sum + requests, 0)
  const refused = usage.days.reduce((sum, { refusals }) => sum + refusals, 0)
  return (
    <tr>
      <th scope="row">
        <Link to={`/settings/api-keys/${key.id}`} className="text-link">
          {name}
        </Link>
        <span className="second-line">{key.masked}</span>
      </th>
      <td data-title="Last used">
        {key.last_used_at === null ? <span className="faint">Never</span> : <When at={key.last_used_at} />}
      </td>
      <td data-title="Expires">
        <When at={key.expires_at} />
      </td>
      <td data-title="Accepted in 30 days" className="number">
        {accepted.toLocaleString()}
      </td>
      <td data-title="Refused" className="number">
        {refused.toLocaleString()}
      </td>
    </tr>
  )
}
