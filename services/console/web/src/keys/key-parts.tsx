import type { ApiKey, GrantableScope, KeyState } from '@postern/contracts'
import { Badge, type Tone } from '../ui/badge.tsx'
import { Icon } from '../ui/icon.tsx'
import { When, ago, distance, exactUtc } from '../ui/when.tsx'
import type { Attention } from './select-keys.ts'

const states = {
  active: { label: 'Active', tone: 'success' },
  expired: { label: 'Expired', tone: 'neutral' },
  revoked: { label: 'Revoked', tone: 'danger' },
} as const satisfies Record<KeyState, { label: string; tone: Tone }>

export function StateBadge({ state }: { readonly state: KeyState }) {
  return (
    <Badge tone={states[state].tone} hasDot>
      {states[state].label}
    </Badge>
  )
}

export function ScopeList({ scopes, limit }: { scopes: readonly GrantableScope[]; limit?: number }) {
  const shown = limit === undefined || scopes.length <= limit ? scopes : scopes.slice(0, 1)
  const rest = scopes.slice(shown.length)
  return (
    <span className="scopes">
      {shown.map((scope) => (
        <code key={scope} className={scope.includes('*') ? 'scope scope-wide' : 'scope'}>
          {scope}
        </code>
      ))}
      {rest.length === 0 ? undefined : (
        <span className="scope" title={rest.join(', ')}>
          +{rest.length}
          <span className="for-listeners"> more: {rest.join(', ')}</span>
        </span>
      )}
    </span>
  )
}

export function KeyEnd({ apiKey, attention, now }: { apiKey: ApiKey; attention: readonly Attention[]; now: number }) {
  const at = apiKey.state === 'revoked' && apiKey.revoked_at !== null ? apiKey.revoked_at : apiKey.expires_at
  const words = apiKey.state === 'revoked' ? `revoked ${ago(at, now)}` : distance(at, now)
  const isExpiring = attention.includes('expiring')
  return (
    <span className="two-lines">
      <When at={apiKey.expires_at} as="day" />
      <span className={isExpiring ? 'second-line warn' : 'second-line'}>
        {isExpiring ? <Icon name="clock" size={14} /> : undefined}
        <time dateTime={at} title={exactUtc(at)}>
          {words}
        </time>
      </span>
    </span>
  )
}

interface AgeProps {
  readonly apiKey: ApiKey
  readonly attention: readonly Attention[]
  readonly rotationDays: number
  readonly now: number
}

export function KeyAge({ apiKey, attention, rotationDays, now }: AgeProps) {
  return (
    <span className="two-lines">
      <When at={apiKey.created_at} as="day" />
      {attention.includes('old') ? (
        <span className="second-line warn" title={`Older than ${rotationDays} days: consider rotating it`}>
          <Icon name="warning" size={14} />
          {ago(apiKey.created_at, now)}
        </span>
      ) : (
        <span className="second-line">{ago(apiKey.created_at, now)}</span>
      )}
    </span>
  )
}

export function LastUse({ apiKey, now }: { readonly apiKey: ApiKey; readonly now: number }) {
  const { last_used_at: used, last_refused_at: refused } = apiKey
  const use = used === null ? <span className="faint">Never</span> : <When at={used} as="distance" now={now} />
  if (!isRefusedSince(apiKey) || refused === null) return use
  return (
    <span className="two-lines">
      {use}
      <span className="second-line warn">
        refused <When at={refused} as="distance" now={now} />
      </span>
    </span>
  )
}

function isRefusedSince({ last_used_at: used, last_refused_at: refused }: ApiKey): boolean {
  if (refused === null) return false
  return used === null || Date.parse(refused) > Date.parse(used)
}
