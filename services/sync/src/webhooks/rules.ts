import { isSubscribed, keyOwnerUrl, webhookEventTypes, webhookRetryDays } from '@postern/contracts'

export interface FedChange {
  readonly position: string
  readonly ordinal: number
  readonly type: string
  readonly resourceId: string
  readonly version: number | null
  readonly committedAt: Date
}

export interface Subscriber {
  readonly id: string
  readonly events: readonly string[]
}

export interface NewDelivery {
  readonly endpointId: string
  readonly eventId: string
  readonly resourceId: string
}

export interface DueDelivery {
  readonly eventId: string
  readonly type: string
  readonly resourceId: string
  readonly version: number | null
  readonly occurredAt: Date
  readonly attempts: number
  readonly firstAttemptAt: Date | null
}

export const maxEndpoints = 20

/** Seconds after each attempt. The last pause repeats. */
const pauses = [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800] as const

export function retryInSeconds(attempts: number): number {
  return pauses[Math.min(attempts, pauses.length) - 1] ?? pauses[0]
}

/** A failing endpoint is tried again at least once a minute, so that it recovers soon. */
const longestEndpointPause = 60

export function endpointPauseSeconds(failures: number): number {
  return Math.min(longestEndpointPause, 5 * 2 ** Math.min(failures, 10))
}

const retryMs = webhookRetryDays * 86_400_000

export function isGivenUp({ firstAttemptAt }: Pick<DueDelivery, 'firstAttemptAt'>, now: Date): boolean {
  return firstAttemptAt !== null && now.getTime() - firstAttemptAt.getTime() > retryMs
}

/** Changes that nobody can subscribe to are left out. */
export function planDeliveries(
  changes: readonly FedChange[],
  subscribers: readonly Subscriber[],
): {
  readonly events: readonly FedChange[]
  readonly deliveriesOf: (ids: readonly string[]) => readonly NewDelivery[]
} {
  const events = changes.filter(
    ({ type }) => type in webhookEventTypes && subscribers.some((each) => isSubscribed(each.events, type)),
  )
  return {
    events,
    deliveriesOf: (ids) =>
      events.flatMap(({ type, resourceId }, index) =>
        subscribers
          .filter((subscriber) => isSubscribed(subscriber.events, type))
          .map(({ id: endpointId }) => ({ endpointId, eventId: ids[index] ?? '', resourceId })),
      ),
  }
}

/** Returns a body that is the same for every attempt. Without `apiUrl`, links are paths. */
export function bodyOf(
  { type, resourceId, version, occurredAt }: Pick<DueDelivery, 'type' | 'resourceId' | 'version' | 'occurredAt'>,
  apiUrl: string | undefined,
): string {
  const data = { id: resourceId, version, url: urlOf({ type, resourceId }, apiUrl) }
  return JSON.stringify({ type, timestamp: occurredAt.toISOString(), data })
}

export function urlOf(
  { type, resourceId }: Pick<DueDelivery, 'type' | 'resourceId'>,
  apiUrl: string | undefined,
): string {
  const path = new Map<string, { readonly path: string }>(Object.entries(webhookEventTypes)).get(type)?.path ?? ''
  return `${apiUrl ?? ''}${path.replace('{id}', resourceId)}`
}

export type Recipients =
  | { readonly kind: 'addresses'; readonly addresses: readonly string[] }
  | { readonly kind: 'key_owner' }

/** The recipients of a `mailto:` URL (RFC 6068), or undefined for another URL. */
export function recipientsOf(url: string): Recipients | undefined {
  if (url === keyOwnerUrl) return { kind: 'key_owner' }
  if (!url.startsWith(mailScheme)) return undefined
  const addresses = url.slice(mailScheme.length).split(',')
  return { kind: 'addresses', addresses: addresses.map((address) => address.trim()) }
}

const mailScheme = 'mailto:'
