import {
  type Webhook,
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook,
  uuidSchema,
} from '@postern/contracts'
import {
  type App,
  type ContractInput,
  type RequestInfo,
  assertIfMatch,
  contractRoute,
  patchRoute,
  problem,
  storedList,
} from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Deps } from '../../deps.ts'
import { configurationOf, etagOf } from '../../etag.ts'
import { actorOf } from '../../run/actor.ts'
import { allowWork, disallowWork } from '../../granted-work/store.ts'
import { assertEndpointCa, assertEndpointEvents, assertEndpointUrl } from './assert-url.ts'
import {
  countEndpoints,
  deleteEndpoint,
  findEndpoint,
  findEndpointForChange,
  insertEndpoint,
  recordEndpointEvent,
  replaceSecret,
  selectEndpoints,
  updateEndpoint,
} from './store.ts'
import { endUnreadFeed, startFeed } from '../feed/store.ts'
import { maxEndpoints } from '../rules.ts'
import { createSecret } from '../sign.ts'

type Parts = Pick<Deps, 'db' | 'queue' | 'outbound' | 'secretRing' | 'mailer'>

export function webhookRoutes(app: App, { db, queue, outbound, secretRing, mailer }: Parts): void {
  const start = async (tx: Tx): Promise<void> => {
    const workId = await startFeed(tx)
    await allowWork(tx, workId)
    await queue.sendWebhookFeed(tx, workId, 0)
  }

  contractRoute(app, createWebhook, async ({ body, context, answer, storeRefusal, log }) => {
    const actor = actorOf(context)
    assertEndpointCa(body.ca)
    await assertEndpointUrl({ outbound, mailer }, body.url)
    assertEndpointEvents(body)
    const id = crypto.randomUUID()
    const secret = createSecret(secretRing, { tenantId: context.tenantId, endpointId: id })
    const made = await db.write(context, async (tx) => {
      // Locks the feed, so that concurrent requests are counted one after the other.
      await start(tx)
      if ((await countEndpoints(tx)) >= maxEndpoints) {
        throw problem('conflict', {
          detail: `The tenant already has ${maxEndpoints} endpoints. Delete one that is no longer used.`,
        })
      }
      await insertEndpoint(tx, { id, ...body, actor })
      await allowWork(tx, id)
      await replaceSecret(tx, id, { ...secret, overlapHours: 0 })
      await recordEndpointEvent(tx, id, 'created', actor, { url: body.url, events: body.events })
      await storeRefusal(tx, `The endpoint was already created: ${id}. Rotate its secret to get a new one.`)
      return await present(tx, id)
    })
    queue.wake('webhookFeed')
    log.info({ event: 'webhook_created', endpoint_id: id, tenant_id: context.tenantId })
    showOnce(answer)
    answer.header('location', `/api/v1/webhooks/${id}`)
    answer.etag(etagOf(made))
    return { ...made, secret: secret.value }
  })

  storedList(app, listWebhooks, {
    source: db,
    key: () => uuidSchema,
    asked: () => undefined,
    list: async (tx, _, place) => await selectEndpoints(tx, place),
    count: countEndpoints,
    keyOf: ({ id }) => id,
    show: (endpoint) => endpoint,
  })

  contractRoute(app, getWebhook, async ({ params, context, answer }) => {
    const endpoint = await db.read(context, async (tx) => await findEndpoint(tx, params.id))
    if (endpoint === undefined) throw problem('not_found')
    answer.etag(etagOf(endpoint))
    return endpoint
  })

  const currentResource = {
    computed: ['paused_at', 'failing_since', 'last_error', 'last_delivered_at', 'pending', 'history', 'updated_at'],
    read: async (input: Pick<ContractInput<typeof updateWebhook>, 'params' | 'context' | 'raw' | 'answer'>) => {
      const endpoint = await db.read(input.context, async (tx) => await findEndpoint(tx, input.params.id))
      if (endpoint === undefined) return undefined
      const confirm = (): void => {
        assertIfMatch(input, etagOf(endpoint), configurationOf)
        input.answer.etag(etagOf(endpoint))
      }
      return { resource: endpoint, confirm }
    },
  }
  patchRoute(app, updateWebhook, currentResource, async (input) => {
    const { params, body, context, answer, log } = input
    const actor = actorOf(context)
    assertEndpointCa(body.ca)
    if (body.url !== undefined) await assertEndpointUrl({ outbound, mailer }, body.url)
    const changed = await db.write(context, async (tx) => {
      const before = await findEndpointForChange(tx, params.id)
      if (before === undefined) throw problem('not_found')
      assertIfMatch(input, etagOf(before), configurationOf)
      const next = {
        url: body.url ?? before.url,
        description: body.description ?? before.description,
        events: body.events ?? before.events,
        ca: body.ca === undefined ? before.ca : body.ca,
        state: body.state ?? before.state,
      }
      assertEndpointEvents(next)
      const isEnabled = next.state === 'enabled' && before.state !== 'enabled'
      if (isEnabled) await start(tx)
      await updateEndpoint(tx, params.id, next, isEnabled || next.url !== before.url)
      if (next.state !== 'enabled') await endUnreadFeed(tx)
      await recordEndpointEvent(tx, params.id, 'changed', actor, { ...body })
      return await present(tx, params.id)
    })
    queue.wake('webhookFeed')
    log.info({ event: 'webhook_changed', endpoint_id: params.id, tenant_id: context.tenantId, state: changed.state })
    answer.etag(etagOf(changed))
    return changed
  })

  contractRoute(app, deleteWebhook, async ({ params, context, log }) => {
    const actor = actorOf(context)
    await db.write(context, async (tx) => {
      if (!(await deleteEndpoint(tx, params.id))) throw problem('not_found')
      await disallowWork(tx, params.id)
      await endUnreadFeed(tx)
      await recordEndpointEvent(tx, params.id, 'deleted', actor)
    })
    log.info({ event: 'webhook_deleted', endpoint_id: params.id, tenant_id: context.tenantId })
    return undefined
  })

  contractRoute(app, rotateWebhookSecret, async ({ params, body, context, answer, storeRefusal, log }) => {
    const actor = actorOf(context)
    const overlapHours = body?.overlap_hours ?? 24
    const secret = createSecret(secretRing, { tenantId: context.tenantId, endpointId: params.id })
    const changed = await db.write(context, async (tx) => {
      if ((await findEndpointForChange(tx, params.id)) === undefined) throw problem('not_found')
      await replaceSecret(tx, params.id, { ...secret, overlapHours })
      await recordEndpointEvent(tx, params.id, 'secret_rotated', actor, { overlap_hours: overlapHours })
      await storeRefusal(tx, 'The secret was already rotated. Rotate it again to get a new one.')
      return await present(tx, params.id)
    })
    log.info({ event: 'webhook_secret_rotated', endpoint_id: params.id, tenant_id: context.tenantId })
    showOnce(answer)
    answer.etag(etagOf(changed))
    return { ...changed, secret: secret.value }
  })
}

function showOnce(answer: RequestInfo['answer']): void {
  answer.header('cache-control', 'no-store')
}

async function present(tx: Tx, id: string): Promise<Webhook> {
  const endpoint = await findEndpoint(tx, id)
  if (endpoint === undefined) throw new Error('the endpoint does not exist')
  return endpoint
}
