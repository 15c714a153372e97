import type { ApiKeyEvent } from '@postern/contracts'
import type { PartialList } from '../api/list.ts'
import { Link } from '../router.tsx'
import { Icon, type IconName } from '../ui/icon.tsx'
import { Failure } from '../ui/notice.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import type { Resource } from '../ui/use-resource.ts'
import { When } from '../ui/when.tsx'

const kinds = {
  created: { title: 'Created', icon: 'plus', tone: 'good' },
  rotated: { title: 'Rotated', icon: 'rotate', tone: 'plain' },
  updated: { title: 'Changed', icon: 'pen', tone: 'plain' },
  revoked: { title: 'Revoked', icon: 'ban', tone: 'bad' },
  denied_expired: { title: 'Rejected: the key had expired', icon: 'clock', tone: 'warn' },
  denied_revoked: { title: 'Rejected: the key was revoked', icon: 'warning', tone: 'bad' },
  denied_address: { title: 'Rejected: the key does not allow the address', icon: 'warning', tone: 'bad' },
  denied_scope: { title: 'Rejected: the key lacks the scope', icon: 'warning', tone: 'warn' },
  used_from_new_address: { title: 'First use from a new address', icon: 'globe', tone: 'plain' },
} as const satisfies Record<ApiKeyEvent['type'], { title: string; icon: IconName; tone: string }>

interface Props {
  readonly events: Resource<PartialList<ApiKeyEvent>>
  readonly onRetry: () => void
}

export function AuditTrail({ events, onRetry }: Props) {
  return (
    <section className="card" aria-labelledby="audit-title">
      <h2 id="audit-title">Audit trail</h2>
      {events.state === 'loading' ? (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="70%" />
          <Skeleton width="50%" />
          <Skeleton width="60%" />
        </div>
      ) : events.state === 'failed' ? (
        <Failure error={events.error} title="The audit trail cannot be shown" onRetry={onRetry} />
      ) : events.value.items.length === 0 ? (
        <p className="faint">There are no events yet.</p>
      ) : (
        <ol className="trail">
          {events.value.items.map((event) => (
            <Event key={event.id} event={event} />
          ))}
        </ol>
      )}
      {events.state === 'ready' && events.value.hasMore ? (
        <p className="fine-print">Older events are in the API: GET /api/v1/api-keys/…/events.</p>
      ) : undefined}
    </section>
  )
}

function Event({ event }: { readonly event: ApiKeyEvent }) {
  const { icon, tone } = kinds[event.type]
  const title = isLeak(event) ? 'Reported as leaked, and revoked' : kinds[event.type].title
  const details = detailsOf(event)
  return (
    <li className={`event event-${tone}`}>
      <span className="event-icon">
        <Icon name={icon} size={14} />
      </span>
      <div>
        <p className="event-title">{title}</p>
        <p className="second-line">
          <When at={event.at} />
          {event.actor === null || event.actor.label === event.address ? undefined : <> · {event.actor.label}</>}
          {event.address === null ? undefined : (
            <>
              {' · '}
              <code>{event.address}</code>
            </>
          )}
        </p>
        {details.length === 0 ? undefined : (
          <ul className="event-details">
            {details.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        )}
        {typeof event.detail['rotated_to'] === 'string' ? (
          <Link className="text-link" to={`/settings/api-keys/${event.detail['rotated_to']}`}>
            Open its successor
          </Link>
        ) : undefined}
      </div>
    </li>
  )
}

function isLeak({ type, actor }: ApiKeyEvent): boolean {
  return type === 'revoked' && actor?.type === 'reporter'
}

function detailsOf(event: ApiKeyEvent): readonly string[] {
  const { type, detail } = event
  const { report, url, reason, overlap, overlap_from: start, changes, attempts, other_addresses: isOthers } = detail
  const lines: string[] = []
  if (typeof url === 'string') lines.push(`Found at ${url}`)
  if (typeof report === 'string') lines.push(`Report ${report}`)
  if (typeof reason === 'string' && !isLeak(event)) lines.push(type === 'revoked' ? `“${reason}”` : reason)
  if (typeof overlap === 'string')
    lines.push(`Overlap: ${overlap}${start === 'first_use' ? ', from the first use of the new key' : ''}`)
  if (typeof attempts === 'number' && attempts > 1) lines.push(`${attempts.toLocaleString()} times`)
  if (isOthers === true) lines.push('From other addresses')
  if (typeof changes === 'object' && changes !== null) {
    for (const [field, change] of Object.entries(changes)) lines.push(`${field.replaceAll('_', ' ')}: ${shown(change)}`)
  }
  return lines
}

function shown(change: unknown): string {
  if (typeof change !== 'object' || change === null) return String(change)
  const from: unknown = Reflect.get(change, 'from')
  const to: unknown = Reflect.get(change, 'to')
  return `${plain(from)} → ${plain(to)}`
}

function plain(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ')
  if (value === null) return 'none'
  if (typeof value === 'string') return value
  const name: unknown = typeof value === 'object' ? Reflect.get(value, 'name') : undefined
  return typeof name === 'string' ? name : JSON.stringify(value)
}
