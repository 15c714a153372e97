import type { WebhookDelivery } from '@postern/contracts'
import { type Tx, statement } from '@postern/tenant-db'
import type { SealedSecret } from '../../secret/store.ts'
import type { DueDelivery } from '../rules.ts'

export interface Target {
  readonly url: string
  readonly ca: string | null
  readonly events: readonly string[]
  readonly failures: number
  /** Newest first. */
  readonly secrets: readonly SealedSecret[]
}

const findTargetOf = statement(
  'sync_find_webhook_target',
  `select e.url, e.ca, e.events, e.failures, (
    select coalesce(jsonb_agg(jsonb_build_object('name', s.id, 'sealed', s.sealed) order by s.id desc), '[]')
      from sync.webhook_secret s
     where s.tenant_id = e.tenant_id and s.endpoint_id = e.id and (s.expires_at is null or s.expires_at > now())) as secrets
  from sync.webhook_endpoint e
  where e.id = $1 and e.state = 'enabled' and e.deleted_at is null and (e.retry_at is null or e.retry_at <= now())`,
)

/** Undefined if nothing may be sent to the endpoint now. */
export async function findTarget(tx: Tx, endpointId: string): Promise<Target | undefined> {
  const [row] = await tx.query<Target>(findTargetOf([endpointId]))
  return row
}

export interface NotifiedKey {
  readonly label: string
  readonly lastFour: string
  readonly isLeaked: boolean
  readonly ownerType: 'person' | 'team' | null
  /** The address of a team. */
  readonly contact: string | null
  readonly hasLeft: boolean
  /** The name of a person in the directory (`tenancy.hash_name`). */
  readonly directoryHash: Buffer | null
}

const findKey = statement(
  'sync_find_notified_key',
  `select k.label, k.last_four as "lastFour", k.is_leaked as "isLeaked", k.owner_type as "ownerType", k.contact,
    k.has_left as "hasLeft", k.directory_hash as "directoryHash"
  from keys.find_key_to_notify($1) k`,
)

export async function findNotifiedKey(tx: Tx, keyId: string): Promise<NotifiedKey | undefined> {
  const [row] = await tx.query<NotifiedKey>(findKey([keyId]))
  return row
}

export interface DirectoryPerson {
  readonly id: string
  /** The SCIM user; null for a person of a connector, who is stored in the universe. */
  readonly content: object | null
}

const findPerson = statement(
  'sync_find_directory_person',
  `select d.person_id as id, u.content
  from tenancy.directory_name d
  left join sync.scim_user u on u.tenant_id = d.tenant_id and u.id = d.person_id and u.deleted_at is null
  where d.hash = $1 and d.is_active and d.is_current
  order by d.source desc, d.person_id
  limit 1`,
)

/** Finds an active person with this name, preferably a SCIM user. Served by directory_name_pk. */
export async function findDirectoryPerson(tx: Tx, hash: Buffer): Promise<DirectoryPerson | undefined> {
  const [row] = await tx.query<DirectoryPerson>(findPerson([hash]))
  return row
}

const selectDue = statement(
  'sync_select_due_deliveries',
  `select d.event_id as "eventId", v.type, d.resource_id as "resourceId", v.version, v.occurred_at as "occurredAt",
    d.attempts, d.first_attempt_at as "firstAttemptAt"
  from sync.webhook_delivery d
  join sync.webhook_event v on v.tenant_id = d.tenant_id and v.id = d.event_id
  where d.endpoint_id = $1 and d.state = 'pending' and d.next_attempt_at <= now()
    and not exists (
      select from sync.webhook_delivery o
       where o.tenant_id = d.tenant_id and o.endpoint_id = d.endpoint_id and o.resource_id = d.resource_id
         and o.state = 'pending' and o.event_id < d.event_id)
  order by d.event_id
  limit $2`,
)

/** Lists the oldest deliveries, at most one for each resource, so that their order is kept. */
export async function listDue(tx: Tx, endpointId: string, limit: number): Promise<readonly DueDelivery[]> {
  return await tx.query<DueDelivery>(selectDue([endpointId, limit]))
}

export interface Outcome {
  readonly eventId: string
  readonly state: WebhookDelivery['state']
  readonly nextInSeconds: number
  readonly status: number | null
  readonly durationMs: number
  readonly error: string | null
  readonly answer: string | null
}

const recordAll = statement(
  'sync_record_deliveries',
  `update sync.webhook_delivery d
  set
    state = o.state, attempts = d.attempts + 1, first_attempt_at = coalesce(d.first_attempt_at, now()),
    last_attempt_at = now(), next_attempt_at = now() + make_interval(secs => o.next_in), status = o.status,
    duration_ms = o.duration_ms, error = o.error, answer = o.answer
  from unnest($2::uuid[], $3::text[], $4::integer[], $5::integer[], $6::integer[], $7::text[], $8::text[])
    as o (event_id, state, next_in, status, duration_ms, error, answer)
  where d.endpoint_id = $1 and d.event_id = o.event_id and d.state = 'pending'`,
)

export async function recordOutcomes(tx: Tx, endpointId: string, outcomes: readonly Outcome[]): Promise<void> {
  await tx.execute(
    recordAll([
      endpointId,
      outcomes.map(({ eventId }) => eventId),
      outcomes.map(({ state }) => state),
      outcomes.map(({ nextInSeconds }) => nextInSeconds),
      outcomes.map(({ status }) => status),
      outcomes.map(({ durationMs }) => durationMs),
      outcomes.map(({ error }) => error),
      outcomes.map(({ answer }) => answer),
    ]),
  )
}

const noteWorking = statement(
  'sync_webhook_works',
  `update sync.webhook_endpoint e
  set failing_since = null, failures = 0, retry_at = null, last_error = null, last_delivered_at = now()
  where e.id = $1 and e.state = 'enabled'`,
)

/** Returns false if the endpoint is no longer enabled. */
export async function recordSuccess(tx: Tx, endpointId: string): Promise<boolean> {
  return (await tx.execute(noteWorking([endpointId]))) > 0
}

const recordFailing = statement(
  'sync_webhook_fails',
  `update sync.webhook_endpoint e
  set
    failing_since = coalesce(e.failing_since, now()), failures = e.failures + 1,
    retry_at = now() + make_interval(secs => $2), last_error = $3
  where e.id = $1 and e.state = 'enabled'
  returning e.failing_since < now() - make_interval(days => $4) as is_given_up`,
)

/** Returns whether the endpoint has failed for so long that it must be paused. */
export async function recordFailure(
  tx: Tx,
  endpointId: string,
  {
    retryInSeconds,
    error,
    giveUpAfterDays,
  }: { readonly retryInSeconds: number; readonly error: string; readonly giveUpAfterDays: number },
): Promise<boolean> {
  const [row] = await tx.query<{ is_given_up: boolean }>(
    recordFailing([endpointId, retryInSeconds, error, giveUpAfterDays]),
  )
  return row?.is_given_up ?? false
}

const pause = statement(
  'sync_pause_webhook',
  `update sync.webhook_endpoint e
  set state = 'paused', paused_at = now(), updated_at = now(), version = e.version + 1
  where e.id = $1 and e.state = 'enabled'`,
)

/** Returns false if it was not enabled. */
export async function pauseEndpoint(tx: Tx, endpointId: string): Promise<boolean> {
  return (await tx.execute(pause([endpointId]))) > 0
}

interface DeliveryRow {
  readonly id: string
  readonly type: string
  readonly resource_id: string
  readonly occurred_at: Date
  readonly state: WebhookDelivery['state']
  readonly attempts: number
  readonly last_attempt_at: Date | null
  readonly next_attempt_at: Date
  readonly status: number | null
  readonly duration_ms: number | null
  readonly error: string | null
  readonly answer: string | null
}

const columns = `
  d.event_id as id, v.type, d.resource_id, v.occurred_at, d.state, d.attempts, d.last_attempt_at, d.next_attempt_at,
  d.status, d.duration_ms, d.error, d.answer`
const joined = `
  from sync.webhook_delivery d
  join sync.webhook_event v on v.tenant_id = d.tenant_id and v.id = d.event_id`

const selectLog = statement(
  'sync_select_deliveries',
  `select ${columns} ${joined}
  where d.endpoint_id = $1 and ($2::text is null or d.state = $2) and ($3::uuid is null or d.event_id < $3)
  order by d.event_id desc
  limit $4`,
)
const countLog = statement(
  'sync_count_deliveries',
  `select count(*)::int as count from sync.webhook_delivery d
  where d.endpoint_id = $1 and ($2::text is null or d.state = $2)`,
)
const findOne = statement(
  'sync_find_delivery',
  `select ${columns} ${joined} where d.endpoint_id = $1 and d.event_id = $2`,
)

export interface LogFilter {
  readonly endpointId: string
  readonly state: WebhookDelivery['state'] | undefined
}

/** Newest first. */
export async function listDeliveries(
  tx: Tx,
  { endpointId, state }: LogFilter,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<WebhookDelivery[]> {
  const rows = await tx.query<DeliveryRow>(selectLog([endpointId, state ?? null, after ?? null, limit]))
  return rows.map(toDelivery)
}

export async function countDeliveries(tx: Tx, { endpointId, state }: LogFilter): Promise<number> {
  const [row] = await tx.query<{ count: number }>(countLog([endpointId, state ?? null]))
  return row?.count ?? 0
}

export async function findDelivery(tx: Tx, endpointId: string, eventId: string): Promise<WebhookDelivery | undefined> {
  const [row] = await tx.query<DeliveryRow>(findOne([endpointId, eventId]))
  return row && toDelivery(row)
}

const sendAgain = statement(
  'sync_send_delivery_again',
  `update sync.webhook_delivery d
  set state = 'pending', attempts = 0, first_attempt_at = null, next_attempt_at = now()
  where d.endpoint_id = $1 and d.event_id = $2`,
)

export async function resetDelivery(tx: Tx, endpointId: string, eventId: string): Promise<void> {
  await tx.execute(sendAgain([endpointId, eventId]))
}

function toDelivery({ last_attempt_at: last, next_attempt_at: next, ...row }: DeliveryRow): WebhookDelivery {
  return {
    ...row,
    occurred_at: row.occurred_at.toISOString(),
    last_attempt_at: last?.toISOString() ?? null,
    next_attempt_at: row.state === 'pending' ? next.toISOString() : null,
  }
}
