import { type Tx, statement } from '@postern/tenant-db'
import { webhookLogDays } from '@postern/contracts'
import type { FedChange, NewDelivery, Subscriber } from '../rules.ts'

export interface FeedPlace {
  readonly position: string
  /** Null: all changes of the position were read. */
  readonly ordinal: number | null
}

export interface Feed extends FeedPlace {
  readonly workId: string
  readonly isPruneDue: boolean
}

const place = statement('sync_place_changes', 'select tenancy.sequence_changes() as more')

export async function assignChangePositions(tx: Tx): Promise<void> {
  for (let isMore = true; isMore;) {
    const [row] = await tx.query<{ more: boolean }>(place([]))
    isMore = row?.more ?? false
  }
}

// Only changes after this moment are sent, unless another endpoint follows the feed already.
const start = statement(
  'sync_start_webhook_feed',
  `insert into sync.webhook_feed as f (tenant_id, position)
  select one.tenant_id, coalesce(h.last_position, 0)
    from (select tenancy.tenant_id() as tenant_id) as one
    left join tenancy.change_head h on h.tenant_id = one.tenant_id
  on conflict (tenant_id) do update
    set position = excluded.position, ordinal = null
    where not exists (
      select from sync.webhook_endpoint e
       where e.tenant_id = f.tenant_id and e.state = 'enabled' and e.deleted_at is null)`,
)
const noteReader = statement(
  'sync_note_event_reader',
  `insert into tenancy.event_reader (tenant_id) values ((select tenancy.tenant_id())) on conflict do nothing`,
)
const findWork = statement('sync_find_webhook_work', 'select f.work_id from sync.webhook_feed f')

/** Call it before an endpoint is enabled. Locks the feed until the transaction ends. Returns the id of its work. */
export async function startFeed(tx: Tx): Promise<string> {
  await assignChangePositions(tx)
  await tx.execute(start([]))
  await tx.execute(noteReader([]))
  const [row] = await tx.query<{ work_id: string }>(findWork([]))
  if (row === undefined) throw new Error('the feed was not started')
  return row.work_id
}

const endReader = statement(
  'sync_end_event_reader',
  `delete from tenancy.event_reader r
  where not exists (select from sync.webhook_endpoint e where e.state = 'enabled' and e.deleted_at is null)`,
)

/** Call it after an endpoint was disabled. A tenant without an enabled endpoint records no events. */
export async function endUnreadFeed(tx: Tx): Promise<void> {
  // A concurrent transaction that enables an endpoint ends before, or begins after.
  await lockFeed(tx)
  await tx.execute(endReader([]))
}

const lock = statement(
  'sync_lock_webhook_feed',
  `select f.work_id, f.position, f.ordinal, coalesce(f.pruned_at < now() - interval '1 hour', true) as is_prune_due
  from sync.webhook_feed f
  for update`,
)

export async function lockFeed(tx: Tx): Promise<Feed | undefined> {
  const [row] = await tx.query<{ work_id: string; position: string; ordinal: number | null; is_prune_due: boolean }>(
    lock([]),
  )
  return row && { workId: row.work_id, position: row.position, ordinal: row.ordinal, isPruneDue: row.is_prune_due }
}

const move = statement('sync_move_webhook_feed', 'update sync.webhook_feed f set position = $1, ordinal = $2')

export async function moveFeed(tx: Tx, { position, ordinal }: FeedPlace): Promise<void> {
  await tx.execute(move([position, ordinal]))
}

const bounds = statement(
  'sync_feed_bounds',
  `select h.last_position, h.pruned_position, exists (
    select from tenancy.change_batch u where u.made_by is null and u.ended_at is not null) as has_unplaced
  from (values (1)) as one (row)
  left join tenancy.change_head h on true`,
)

export async function findBounds(
  tx: Tx,
): Promise<{ readonly last: string; readonly pruned: string; readonly hasUnplaced: boolean }> {
  const [row] = await tx.query<{
    last_position: string | null
    pruned_position: string | null
    has_unplaced: boolean
  }>(bounds([]))
  return {
    last: row?.last_position ?? '0',
    pruned: row?.pruned_position ?? '0',
    hasUnplaced: row?.has_unplaced ?? false,
  }
}

const behind = `
  from tenancy.change_batch b
  join tenancy.change c on c.tenant_id = b.tenant_id and c.batch_id = b.id
  where b.position >= $1::bigint and b.position <= $3::bigint
    and (b.position > $1::bigint or c.ordinal > $2)
  order by b.position, c.ordinal`

const list = statement(
  'sync_list_feed',
  `select near.position, near.ordinal, near.resource_id, near.version, near.committed_at,
    case when near.kind = 'event' then near.event else near.kind || '.' || near.change end as type
  from (
    select b.position, c.ordinal, c.kind, c.event, c.change, c.resource_id, c.version, b.committed_at
    ${behind}
    limit $4) as near
  where near.kind in ('event', 'finding', 'action_plan')
  order by near.position, near.ordinal
  limit $5`,
)
const findEnd = statement('sync_feed_walk_end', `select b.position, c.ordinal ${behind} offset $4 limit 1`)

const maxOrdinal = 2 ** 31 - 1
/** How many changes one statement reads. After an import, no endpoint wants most of them. */
const walkLength = 20_000

/** In commit order, up to the position `last`. `next`: where to continue; `isCut`: more changes follow. */
export async function readFeed(
  tx: Tx,
  after: FeedPlace,
  last: string,
  limit: number,
): Promise<{ readonly changes: readonly FedChange[]; readonly next: FeedPlace; readonly isCut: boolean }> {
  const from = [after.position, after.ordinal ?? maxOrdinal, last]
  const rows = await tx.query<{
    position: string
    ordinal: number
    resource_id: string
    version: number | null
    committed_at: Date
    type: string
  }>(list([...from, walkLength, limit]))
  const changes = rows.map(({ resource_id: resourceId, committed_at: committedAt, ...row }) => ({
    ...row,
    resourceId,
    committedAt,
  }))
  const cut = changes.length === limit ? changes.at(-1) : undefined
  if (cut !== undefined) return { changes, next: cut, isCut: true }
  const [end] = await tx.query<{ position: string; ordinal: number }>(findEnd([...from, walkLength - 1]))
  return { changes, next: end ?? { position: last, ordinal: null }, isCut: end !== undefined }
}

const selectSubscribers = statement(
  'sync_select_webhook_subscribers',
  `select e.id, e.events from sync.webhook_endpoint e where e.state = 'enabled' and e.deleted_at is null order by e.id`,
)

export async function listSubscribers(tx: Tx): Promise<readonly Subscriber[]> {
  return await tx.query<{ id: string; events: string[] }>(selectSubscribers([]))
}

const makeIds = statement('sync_make_event_ids', 'select uuidv7() as id from generate_series(1, $1)')
const insertEventRows = statement(
  'sync_insert_webhook_events',
  `insert into sync.webhook_event (tenant_id, id, type, resource_id, version, occurred_at)
  select (select tenancy.tenant_id()), made.*
    from unnest($1::uuid[], $2::text[], $3::uuid[], $4::integer[], $5::timestamptz[]) as made`,
)

export interface NewEvent {
  readonly type: string
  readonly resourceId: string
  readonly version: number | null
  readonly committedAt: Date
}

/** Returns the ids in the order of the events. Each is greater than the one before. */
export async function insertEvents(tx: Tx, events: readonly NewEvent[]): Promise<readonly string[]> {
  if (events.length === 0) return []
  const rows = await tx.query<{ id: string }>(makeIds([events.length]))
  const ids = rows.map(({ id }) => id).toSorted()
  await tx.execute(
    insertEventRows([
      ids,
      events.map(({ type }) => type),
      events.map(({ resourceId }) => resourceId),
      events.map(({ version }) => version),
      events.map(({ committedAt }) => committedAt),
    ]),
  )
  return ids
}

const insertRows = statement(
  'sync_insert_webhook_deliveries',
  `insert into sync.webhook_delivery (tenant_id, endpoint_id, event_id, resource_id)
  select (select tenancy.tenant_id()), made.*
    from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as made`,
)

export async function insertDeliveries(tx: Tx, deliveries: readonly NewDelivery[]): Promise<void> {
  if (deliveries.length === 0) return
  await tx.execute(
    insertRows([
      deliveries.map(({ endpointId }) => endpointId),
      deliveries.map(({ eventId }) => eventId),
      deliveries.map(({ resourceId }) => resourceId),
    ]),
  )
}

const selectDue = statement(
  'sync_select_due_webhooks',
  `select e.id
  from sync.webhook_endpoint e
  where e.state = 'enabled' and e.deleted_at is null and (e.retry_at is null or e.retry_at <= now())
    and exists (
      select from sync.webhook_delivery d
       where d.tenant_id = e.tenant_id and d.endpoint_id = e.id and d.state = 'pending' and d.next_attempt_at <= now())
  order by e.id`,
)

export async function listDueEndpoints(tx: Tx): Promise<readonly string[]> {
  return (await tx.query<{ id: string }>(selectDue([]))).map(({ id }) => id)
}

const oldEvents = `
  select v.id from sync.webhook_event v
   where v.created_at < now() - interval '${webhookLogDays} days'
   order by v.created_at, v.id
   limit 2000`
const pruneDeliveries = statement(
  'sync_prune_webhook_deliveries',
  `delete from sync.webhook_delivery d where d.event_id in (${oldEvents})`,
)
const pruneEvents = statement(
  'sync_prune_webhook_events',
  `delete from sync.webhook_event v where v.id in (${oldEvents})`,
)
const notePruned = statement('sync_note_webhooks_pruned', 'update sync.webhook_feed f set pruned_at = now()')

/** Deletes old events and their deliveries. Returns whether more may be left. */
export async function pruneOldEvents(tx: Tx): Promise<boolean> {
  await tx.execute(pruneDeliveries([]))
  if ((await tx.execute(pruneEvents([]))) > 0) return true
  await tx.execute(notePruned([]))
  return false
}
