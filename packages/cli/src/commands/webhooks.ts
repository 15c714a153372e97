import {
  type Webhook,
  createdWebhookSchema,
  webhookDeliverySchema,
  webhookSchema,
  webhookSubscriptions,
} from '@postern/contracts'
import { usageError } from '../cli-error.ts'
import type { OperatorRequest, OperatorService } from '../operator-service.ts'
import {
  type CommandContext,
  type OutputOptions,
  listAll,
  parseAnswer,
  printJson,
  withKeysService,
  withSyncService,
} from '../session.ts'
import { readWholeText } from '../text-file.ts'
import { moment, formatSheet, formatTable } from '../table.ts'
import { findTenant } from './tenants.ts'

const path = '/api/v1/webhooks'

interface TenantOptions extends OutputOptions {
  readonly tenant: string
}

interface TenantSession {
  call(
    request: Omit<OperatorRequest, 'tenantId'>,
  ): Promise<{ readonly body: unknown; readonly etag?: string | undefined }>
  readonly service: OperatorService
  readonly tenantId: string
}

async function withTenant<T>(context: CommandContext, tenant: string, work: (session: TenantSession) => Promise<T>) {
  const { id: tenantId } = await withKeysService(context.env, async (keys) => await findTenant(keys, tenant))
  return await withSyncService(
    context.env,
    async (service) =>
      await work({ service, tenantId, call: async (request) => await service.call({ tenantId, ...request }) }),
  )
}

export async function createWebhook(
  context: CommandContext,
  url: string,
  options: TenantOptions & { readonly event: readonly string[]; readonly description?: string; readonly ca?: string },
): Promise<void> {
  assertEvents(options.event)
  const ca = options.ca === undefined ? undefined : await readWholeText(options.ca)
  const created = await withTenant(context, options.tenant, async ({ call }) => {
    const { description = '', event: events } = options
    const { body } = await call({
      method: 'POST',
      target: path,
      body: { url, events, description, ...(ca === undefined ? {} : { ca }) },
      noResponseAdvice: 'The endpoint may have been created. See `webhooks list`',
    })
    return parseAnswer(createdWebhookSchema, body)
  })
  if (options.json) printJson(context, created)
  else context.print(`${formatWebhook(created)}\n\nThe secret is shown only now:\n${created.secret}`)
}

export async function listWebhooks(context: CommandContext, options: TenantOptions): Promise<void> {
  const webhooks = await withTenant(
    context,
    options.tenant,
    async ({ service, tenantId }) =>
      await listAll(
        service,
        { tenantId },
        { path, query: new URLSearchParams(), schema: webhookSchema.array(), limit: Number.POSITIVE_INFINITY },
      ),
  )
  if (options.json) {
    printJson(context, webhooks)
    return
  }
  const rows = webhooks.map((each) => [
    each.id,
    each.url,
    each.state,
    each.events.join(' '),
    String(each.pending),
    moment(each.last_delivered_at),
    each.last_error ?? '-',
  ])
  context.print(formatTable(['ID', 'URL', 'STATE', 'EVENTS', 'WAITING', 'LAST DELIVERED', 'LAST ERROR'], rows))
}

function assertEvents(events: readonly string[]): void {
  const unknown = events.filter((name) => !webhookSubscriptions.includes(name))
  if (unknown.length === 0) return
  throw usageError(`--event has the unknown value ${unknown.join(', ')}. Known: ${webhookSubscriptions.join(' ')}`)
}

export async function updateWebhook(
  context: CommandContext,
  id: string,
  options: TenantOptions & { readonly url?: string; readonly event?: readonly string[]; readonly description?: string },
): Promise<void> {
  const { url, event: events, description } = options
  assertEvents(events ?? [])
  const change = {
    ...(url === undefined ? {} : { url }),
    ...(events === undefined ? {} : { events }),
    ...(description === undefined ? {} : { description }),
  }
  if (Object.keys(change).length === 0) throw usageError('pass --url, --event or --description')
  await changeWebhook(context, id, change, options)
}

export async function setWebhookState(
  context: CommandContext,
  state: 'enabled' | 'disabled',
  id: string,
  options: TenantOptions,
): Promise<void> {
  await changeWebhook(context, id, { state }, options)
}

async function changeWebhook(
  context: CommandContext,
  id: string,
  change: object,
  options: TenantOptions,
): Promise<void> {
  const changed = await withTenant(context, options.tenant, async ({ call }) => {
    const target = `${path}/${encodeURIComponent(id)}`
    const { etag = '' } = await call({ method: 'GET', target })
    const { body } = await call({ method: 'PATCH', target, body: change, ifMatch: etag })
    return parseAnswer(webhookSchema, body)
  })
  if (options.json) printJson(context, changed)
  else context.print(formatWebhook(changed))
}

export async function deleteWebhook(context: CommandContext, id: string, options: TenantOptions): Promise<void> {
  await withTenant(
    context,
    options.tenant,
    async ({ call }) => await call({ method: 'DELETE', target: `${path}/${encodeURIComponent(id)}` }),
  )
  if (options.json) printJson(context, { deleted: id })
  else context.print(`${id} is deleted`)
}

export async function rotateWebhookSecret(
  context: CommandContext,
  id: string,
  options: TenantOptions & { readonly overlapHours: number },
): Promise<void> {
  const rotated = await withTenant(context, options.tenant, async ({ call }) => {
    const { body } = await call({
      method: 'POST',
      target: `${path}/${encodeURIComponent(id)}/rotate-secret`,
      body: { overlap_hours: options.overlapHours },
      noResponseAdvice: 'The secret may have been replaced. Rotate it again',
    })
    return parseAnswer(createdWebhookSchema, body)
  })
  if (options.json) printJson(context, rotated)
  else context.print(`${formatWebhook(rotated)}\n\nThe new secret is shown only now:\n${rotated.secret}`)
}

export async function sendWebhook(
  context: CommandContext,
  id: string,
  options: TenantOptions & { readonly delivery?: string },
): Promise<void> {
  const { delivery } = options
  const sent = await withTenant(context, options.tenant, async ({ call }) => {
    const { body } = await call({
      method: 'POST',
      target: `${path}/${encodeURIComponent(id)}/deliveries`,
      body: delivery === undefined ? {} : { delivery_id: delivery },
    })
    return parseAnswer(webhookDeliverySchema, body)
  })
  if (options.json) printJson(context, sent)
  else context.print(`${sent.type} waits with the webhook-id ${sent.id}. See \`webhooks deliveries ${id}\``)
}

export async function listDeliveries(
  context: CommandContext,
  id: string,
  options: TenantOptions & { readonly state?: string; readonly limit?: number },
): Promise<void> {
  const query = new URLSearchParams(options.state === undefined ? {} : { state: options.state })
  const deliveries = await withTenant(
    context,
    options.tenant,
    async ({ service, tenantId }) =>
      await listAll(
        service,
        { tenantId },
        {
          path: `${path}/${encodeURIComponent(id)}/deliveries`,
          query,
          schema: webhookDeliverySchema.array(),
          limit: options.limit ?? 100,
        },
      ),
  )
  if (options.json) {
    printJson(context, deliveries)
    return
  }
  const rows = deliveries.map((each) => [
    each.id,
    each.type,
    each.resource_id,
    each.state,
    String(each.attempts),
    each.status === null ? '-' : String(each.status),
    moment(each.last_attempt_at),
    each.error ?? '-',
  ])
  context.print(formatTable(['ID', 'TYPE', 'RESOURCE', 'STATE', 'ATTEMPTS', 'STATUS', 'LAST ATTEMPT', 'ERROR'], rows))
}

function formatWebhook(webhook: Webhook): string {
  return formatSheet([
    ['id', webhook.id],
    ['url', webhook.url],
    ['state', webhook.state],
    ['events', webhook.events.join(' ')],
    ['waiting', String(webhook.pending)],
    ['last error', webhook.last_error ?? '-'],
  ])
}
