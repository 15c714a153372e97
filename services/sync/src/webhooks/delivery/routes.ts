import { type Webhook, listWebhookDeliveries, sendWebhook, uuidSchema } from '@postern/contracts'
import { type App, contractRoute, problem, storedList } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Deps } from '../../deps.ts'
import { actorOf } from '../../run/actor.ts'
import { type LogFilter, countDeliveries, findDelivery, listDeliveries, resetDelivery } from './store.ts'
import { findEndpoint, findEndpointForChange, recordEndpointEvent } from '../endpoint/store.ts'
import { insertDeliveries, insertEvents } from '../feed/store.ts'

export function webhookDeliveryRoutes(app: App, { db, queue, now }: Pick<Deps, 'db' | 'queue' | 'now'>): void {
  storedList(app, listWebhookDeliveries, {
    source: db,
    key: () => uuidSchema,
    asked: ({ params, query }): LogFilter => ({ endpointId: params.id, state: query.state }),
    isThere: async (tx, { endpointId }) => (await findEndpoint(tx, endpointId)) !== undefined,
    list: listDeliveries,
    count: countDeliveries,
    keyOf: ({ id }) => id,
    show: (delivery) => delivery,
  })

  contractRoute(app, sendWebhook, async ({ params, body, context, keep }) => {
    const actor = actorOf(context)
    const sent = await db.write(context, async (tx) => {
      const endpoint = await findEndpointForChange(tx, params.id)
      if (endpoint === undefined) throw problem('not_found')
      const { delivery_id: given } = body ?? {}
      if (given !== undefined && (await findDelivery(tx, params.id, given)) === undefined) {
        throw problem('not_found', { detail: 'The endpoint has no delivery with this id.' })
      }
      assertEnabled(endpoint)
      const eventId = given ?? (await insertTest(tx, params.id))
      await resetDelivery(tx, params.id, eventId)
      await queue.sendWebhookDeliveries(tx, context.tenantId, params.id)
      await recordEndpointEvent(tx, params.id, 'sent', actor, { delivery: eventId })
      return await keep(tx, await present(tx, params.id, eventId))
    })
    queue.wake('webhookSend')
    return sent
  })

  async function insertTest(tx: Tx, endpointId: string): Promise<string> {
    const event = { type: 'webhook.test', resourceId: endpointId, version: null, committedAt: now() }
    const [eventId = ''] = await insertEvents(tx, [event])
    await insertDeliveries(tx, [{ endpointId, eventId, resourceId: endpointId }])
    return eventId
  }
}

function assertEnabled({ state }: Webhook): void {
  if (state !== 'enabled') throw problem('conflict', { detail: `The endpoint is ${state}. Enable it first.` })
}

async function present(tx: Tx, endpointId: string, eventId: string) {
  const delivery = await findDelivery(tx, endpointId, eventId)
  if (delivery === undefined) throw new Error('the delivery does not exist')
  return delivery
}
