import type { CallOptions, Connection } from './connection.ts'
import type { AnswerOf, BodyOf, ItemOf, QueryOf } from './operations.ts'
import { type Pages, pagesOf } from './pages.ts'
import {
  type Changeable,
  type Readable,
  type Target,
  addressOf,
  changeableMethods,
  readableMethods,
} from './resource.ts'

type Webhook = AnswerOf<'getWebhook'>
type Delivery = AnswerOf<'sendWebhook'>

/** Needs the access token of a person with the role `admin`. */
export interface Webhooks extends Readable<Webhook>, Changeable<Webhook, BodyOf<'updateWebhook'>, Webhook> {
  list(query?: QueryOf<'listWebhooks'>, options?: CallOptions): Pages<ItemOf<'listWebhooks'>>
  /** Only this response contains the secret. */
  create(endpoint: BodyOf<'createWebhook'>, options?: CallOptions): Promise<AnswerOf<'createWebhook'>>
  remove(target: Target, options?: CallOptions): Promise<void>
  /** Only this response contains the new secret. */
  rotateSecret(
    target: Target,
    body?: BodyOf<'rotateWebhookSecret'>,
    options?: CallOptions,
  ): Promise<AnswerOf<'rotateWebhookSecret'>>
  /** Sends a `webhook.test` event. */
  test(target: Target, options?: CallOptions): Promise<Delivery>
  /** Newest first. */
  deliveries(target: Target, query?: QueryOf<'listWebhookDeliveries'>, options?: CallOptions): Pages<Delivery>
  /** Sends a delivery again, with the same `webhook-id`. */
  redeliver(target: Target, deliveryId: string, options?: CallOptions): Promise<Delivery>
}

const paramsOf = (target: Target) => ({ params: { id: addressOf(target) } })

export function openWebhooks(connection: Connection): Webhooks {
  return {
    ...readableMethods(connection, 'getWebhook'),
    ...changeableMethods(connection, 'getWebhook', 'updateWebhook'),
    list: (query, options = {}) => pagesOf(connection, 'listWebhooks', {}, query, options),
    create: async (body, options = {}) => await connection.call('createWebhook', { body, ...options }),
    remove: async (target, options = {}) => {
      await connection.call('deleteWebhook', { ...paramsOf(target), ...options })
    },
    rotateSecret: async (target, body = {}, options = {}) =>
      await connection.call('rotateWebhookSecret', { ...paramsOf(target), body, ...options }),
    test: async (target, options = {}) => await connection.call('sendWebhook', { ...paramsOf(target), ...options }),
    deliveries: (target, query, options = {}) =>
      pagesOf(connection, 'listWebhookDeliveries', { id: addressOf(target) }, query, options),
    redeliver: async (target, deliveryId, options = {}) =>
      await connection.call('sendWebhook', { ...paramsOf(target), body: { delivery_id: deliveryId }, ...options }),
  }
}
