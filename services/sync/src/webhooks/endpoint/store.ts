import { type CreatedBy, type Webhook, type WebhookTrailType, webhookSubscriptions } from '@postern/contracts'
import { type Tx, getRow, statement } from '@postern/tenant-db'

export interface NewEndpoint {
  readonly id: string
  readonly url: string
  readonly description: string
  readonly events: readonly string[]
  readonly ca: string | null
  readonly actor: CreatedBy
}

interface EndpointRow {
  readonly id: string
  readonly url: string
  readonly description: string
  readonly events: string[]
  readonly ca: string | null
  readonly state: Webhook['state']
  readonly paused_at: Date | null
  readonly failing_since: Date | null
  readonly last_error: string | null
  readonly last_delivered_at: Date | null
  readonly pending: number
  readonly secret_expires_at: Date | null
  readonly created_by: CreatedBy
  readonly created_at: Date
  readonly updated_at: Date
  readonly version: number
  readonly history: readonly (Omit<Webhook['history'][number], 'at'> & { readonly at: number })[]
}

const columns = `
  e.id, e.url, e.description, e.events, e.ca, e.state, e.paused_at, e.failing_since, e.last_error, e.last_delivered_at,
  (
    select count(*)::int
      from (
        select
          from sync.webhook_delivery d
         where d.tenant_id = e.tenant_id and d.endpoint_id = e.id and d.state = 'pending'
         limit 1000) waiting
  ) as pending,
  (
    select max(s.expires_at)
      from sync.webhook_secret s
     where s.tenant_id = e.tenant_id and s.endpoint_id = e.id and s.expires_at > now()
  ) as secret_expires_at,
  jsonb_build_object('type', e.created_by_type, 'id', e.created_by_id, 'label', e.created_by_label) as created_by,
  e.created_at, e.updated_at, e.version,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
        'type', t.type, 'at', extract(epoch from t.at) * 1000,
        'actor', jsonb_build_object('type', t.actor_type, 'id', t.actor_id, 'label', t.actor_label)) order by t.id desc), '[]')
      from (
        select n.id, n.type, n.at, n.actor_type, n.actor_id, n.actor_label
          from sync.webhook_trail n
         where n.tenant_id = e.tenant_id and n.endpoint_id = e.id
         order by n.id desc
         limit 20) t
  ) as history`

const selectPage = statement(
  'sync_select_webhooks',
  `select ${columns}
  from sync.webhook_endpoint e
  where e.deleted_at is null and ($1::uuid is null or e.id > $1)
  order by e.id
  limit $2`,
)

export async function selectEndpoints(
  tx: Tx,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<Webhook[]> {
  return (await tx.query<EndpointRow>(selectPage([after ?? null, limit]))).map(toWebhook)
}

const countAll = statement(
  'sync_count_webhooks',
  'select count(*)::int as count from sync.webhook_endpoint e where e.deleted_at is null',
)

export async function countEndpoints(tx: Tx): Promise<number> {
  return getRow(await tx.query<{ count: number }>(countAll([]))).count
}

const findOne = statement(
  'sync_find_webhook',
  `select ${columns} from sync.webhook_endpoint e where e.id = $1 and e.deleted_at is null`,
)

export async function findEndpoint(tx: Tx, id: string): Promise<Webhook | undefined> {
  const [row] = await tx.query<EndpointRow>(findOne([id]))
  return row && toWebhook(row)
}

const lockOne = statement(
  'sync_lock_webhook',
  'select e.id from sync.webhook_endpoint e where e.id = $1 and e.deleted_at is null for no key update',
)

/** Locks the endpoint until the end of the transaction. Deliveries to it can still be inserted. */
export async function findEndpointForChange(tx: Tx, id: string): Promise<Webhook | undefined> {
  const rows = await tx.query(lockOne([id]))
  return rows.length === 0 ? undefined : await findEndpoint(tx, id)
}

const insertOne = statement(
  'sync_insert_webhook',
  `insert into sync.webhook_endpoint (
    tenant_id, id, url, description, events, ca, created_by_type, created_by_id, created_by_label
  )
  values ((select tenancy.tenant_id()), $1, $2, $3, $4, $5, $6, $7, $8)`,
)

export async function insertEndpoint(tx: Tx, { id, url, description, events, ca, actor }: NewEndpoint): Promise<void> {
  await tx.execute(insertOne([id, url, description, events, ca, actor.type, actor.id, actor.label]))
}

const updateOne = statement(
  'sync_update_webhook',
  `update sync.webhook_endpoint e
  set
    url = $2, description = $3, events = $4, ca = $5, state = $6,
    paused_at = case when $6::text = 'paused' then e.paused_at end,
    failing_since = case when $7::boolean then null else e.failing_since end,
    failures = case when $7::boolean then 0 else e.failures end,
    retry_at = case when $7::boolean then null else e.retry_at end,
    version = e.version + 1, updated_at = now()
  where e.id = $1`,
)

/** With `startsAgain`, earlier failures no longer count. */
export async function updateEndpoint(
  tx: Tx,
  id: string,
  to: Pick<Webhook, 'url' | 'description' | 'events' | 'ca' | 'state'>,
  startsAgain: boolean,
): Promise<void> {
  await tx.execute(updateOne([id, to.url, to.description, to.events, to.ca, to.state, startsAgain]))
}

const deleteOne = statement(
  'sync_delete_webhook',
  `update sync.webhook_endpoint e
  set deleted_at = now(), state = 'disabled', paused_at = null, ca = null, updated_at = now()
  where e.id = $1 and e.deleted_at is null`,
)
const deleteSecrets = statement(
  'sync_delete_webhook_secrets',
  'delete from sync.webhook_secret s where s.endpoint_id = $1',
)

/** Keeps the row for its deliveries, which expire. Returns false if there is no such endpoint. */
export async function deleteEndpoint(tx: Tx, id: string): Promise<boolean> {
  await tx.execute(deleteSecrets([id]))
  return (await tx.execute(deleteOne([id]))) > 0
}

const insertSecretOf = statement(
  'sync_insert_webhook_secret',
  `insert into sync.webhook_secret (tenant_id, endpoint_id, id, sealed)
  values ((select tenancy.tenant_id()), $1, $2, $3)`,
)
const endSecrets = statement(
  'sync_end_webhook_secrets',
  `update sync.webhook_secret s
  set expires_at = now() + make_interval(hours => $2)
  where s.endpoint_id = $1 and s.expires_at is null`,
)
const deleteEnded = statement(
  'sync_delete_ended_webhook_secrets',
  'delete from sync.webhook_secret s where s.endpoint_id = $1 and s.expires_at is not null',
)

/** At most two secrets are in use: a rotation during an overlap ends the older one at once. */
export async function replaceSecret(
  tx: Tx,
  endpointId: string,
  { id, sealed, overlapHours }: { readonly id: string; readonly sealed: string; readonly overlapHours: number },
): Promise<void> {
  await tx.execute(deleteEnded([endpointId]))
  await tx.execute(endSecrets([endpointId, overlapHours]))
  await tx.execute(insertSecretOf([endpointId, id, sealed]))
}

const insertTrail = statement(
  'sync_insert_webhook_trail',
  `insert into sync.webhook_trail (tenant_id, endpoint_id, type, actor_type, actor_id, actor_label, detail)
  values ((select tenancy.tenant_id()), $1, $2, $3, $4, $5, $6::jsonb)`,
)

export async function recordEndpointEvent(
  tx: Tx,
  endpointId: string,
  type: WebhookTrailType,
  actor: CreatedBy,
  detail: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  await tx.execute(insertTrail([endpointId, type, actor.type, actor.id, actor.label, JSON.stringify(detail)]))
}

function toWebhook(row: EndpointRow): Webhook {
  return {
    ...row,
    events: offeredTypes(row.events),
    paused_at: row.paused_at?.toISOString() ?? null,
    failing_since: row.failing_since?.toISOString() ?? null,
    last_delivered_at: row.last_delivered_at?.toISOString() ?? null,
    secret_expires_at: row.secret_expires_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    history: row.history.map((entry) => ({ ...entry, at: new Date(entry.at).toISOString() })),
  }
}

/** Types that are not offered any more are left out, unless the endpoint has no others. */
function offeredTypes(stored: string[]): string[] {
  const offered = stored.filter((name) => webhookSubscriptions.includes(name))
  return offered.length === 0 ? stored : offered
}
