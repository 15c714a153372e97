import type { Webhook, WebhookDelivery } from '@postern/contracts'
import { type RequestOptions, request, send } from './request.ts'

export type { Webhook, WebhookDelivery }

type Reading = Pick<RequestOptions, 'signal' | 'isAutomatic'>

const path = '/api/v1/webhooks'
const pathOf = (id: string) => `${path}/${encodeURIComponent(id)}`

export async function listWebhooks(reading: Reading): Promise<readonly Webhook[]> {
  return (await request<readonly Webhook[]>(path, reading)).body
}

export interface NewWebhook {
  readonly url: string
  readonly events: readonly string[]
  readonly description: string
  /** Null for the public authorities. */
  readonly ca: string | null
}

/** The response contains the secret. The same `attempt` creates no second endpoint. */
export async function createWebhook(body: NewWebhook, attempt: string, signal: AbortSignal): Promise<Webhook> {
  const headers = { 'idempotency-key': attempt }
  return (await request<Webhook>(path, { method: 'POST', body, headers, signal })).body
}

export interface TaggedWebhook {
  readonly webhook: Webhook
  readonly etag: string
}

export async function readTaggedWebhook(id: string, signal: AbortSignal): Promise<TaggedWebhook> {
  const { body, headers } = await request<Webhook>(pathOf(id), { signal })
  return { webhook: body, etag: headers.get('etag') ?? '' }
}

/** Throws a 412 problem if somebody else has changed the endpoint since it was read. */
export async function updateWebhook(
  { webhook, etag }: TaggedWebhook,
  change: NewWebhook | { readonly state: 'enabled' | 'disabled' },
  signal: AbortSignal,
): Promise<void> {
  await send(pathOf(webhook.id), { method: 'PATCH', body: change, headers: { 'if-match': etag }, signal })
}

/** The response contains the new secret. The same `attempt` replaces it once. */
export async function rotateWebhookSecret(id: string, attempt: string, signal: AbortSignal): Promise<Webhook> {
  const headers = { 'idempotency-key': attempt }
  return (await request<Webhook>(`${pathOf(id)}/rotate-secret`, { method: 'POST', body: {}, headers, signal })).body
}

export async function deleteWebhook(id: string, signal: AbortSignal): Promise<void> {
  await send(pathOf(id), { method: 'DELETE', signal })
}

export async function listDeliveries(id: string, reading: Reading): Promise<readonly WebhookDelivery[]> {
  return (await request<readonly WebhookDelivery[]>(`${pathOf(id)}/deliveries?limit=50`, reading)).body
}

/** Sends a test event, or with `deliveryId` a delivery again. The same `attempt` sends it once. */
export async function sendWebhook(
  id: string,
  deliveryId: string | undefined,
  attempt: string,
  signal: AbortSignal,
): Promise<void> {
  const body = deliveryId === undefined ? {} : { delivery_id: deliveryId }
  await send(`${pathOf(id)}/deliveries`, { method: 'POST', body, headers: { 'idempotency-key': attempt }, signal })
}
