import { type AuditEvent, type AuditFilter, auditEventSchema } from '@postern/contracts'
import { type Tx, statement } from '@postern/tenant-db'

interface EventRow {
  readonly id: string
  readonly at: Date
  readonly position: string
}

const columns = `
  e.id, e.at, e.category, e.action, e.outcome, e.reason, e.actor_type, e.actor_id, e.actor_name,
  e.resource_type, e.resource_id, e.resource_name, e.source_ip, e.request_id, e.position`

const hasUnplacedEvents = statement(
  'keys_has_unplaced_audit_events',
  'select from tenancy.audit_event as e where e.ended_at is not null limit 1',
)
const sequence = statement('keys_sequence_audit_events', 'select tenancy.sequence_audit_events() as more')

/** Whether events are committed and have no position yet. */
export async function hasUnplaced(tx: Tx): Promise<boolean> {
  return (await tx.query(hasUnplacedEvents([]))).length > 0
}

/** Gives committed events their positions. Returns whether more may be left. */
export async function assignEventPositions(tx: Tx): Promise<boolean> {
  const [row] = await tx.query<{ more: boolean }>(sequence([]))
  return row?.more ?? false
}

const expired = statement('keys_note_expired', 'select keys.note_expired($1)')
const maintain = statement('keys_maintain_audit_events', 'select tenancy.maintain_audit_events($1)')

/** Records an event for each key that has expired since the last call. */
export async function recordExpired(tx: Tx, limit: number): Promise<void> {
  await tx.execute(expired([limit]))
}

/** Deletes up to `limit` old events of each tenant, and assigns positions to new events that nobody has read. */
export async function maintainAuditEvents(tx: Tx, limit: number): Promise<void> {
  await tx.execute(maintain([limit]))
}

const findAt = statement(
  'keys_find_audit_position',
  'select from tenancy.audit_event as e where e.position = $1::bigint and e.id = $2',
)

export async function hasEventAt(tx: Tx, { position, id }: { position: string; id: string }): Promise<boolean> {
  return (await tx.query(findAt([position, id]))).length === 1
}

// audit_event_position_unique, audit_event_of_resource
const where = `
  where e.position is not null
    and ($1::bigint is null or e.position > $1)
    and ($2::timestamptz is null or e.at >= $2)
    and ($3::timestamptz is null or e.at < $3)
    and ($4::text[] is null or e.category = any ($4))
    and ($5::text is null or e.action = $5)
    and ($6::text is null or e.actor_id = $6)
    and ($7::text is null or e.resource_id = $7)
    and ($8::text[] is null or e.outcome = any ($8))
    and ($9::uuid is null or e.id = $9)`

const orders = {
  newest: statement(
    'keys_list_newest_audit_events',
    `select ${columns} from tenancy.audit_event as e ${where}
      and ($10::bigint is null or e.position < $10)
    order by e.position desc
    limit $11`,
  ),
  oldest: statement(
    'keys_list_oldest_audit_events',
    `select ${columns} from tenancy.audit_event as e ${where}
      and ($10::bigint is null or e.position > $10)
    order by e.position
    limit $11`,
  ),
}
const countAll = statement(
  'keys_count_audit_events',
  `select count(*)::float8 as count from tenancy.audit_event as e ${where}`,
)

export async function listAuditEvents(
  tx: Tx,
  filter: AuditFilter,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<AuditEvent[]> {
  const rows = await tx.query<EventRow>(orders[filter.order]([...valuesOf(filter), after ?? null, limit]))
  return rows.map(toEvent)
}

export async function countAuditEvents(tx: Tx, filter: AuditFilter): Promise<number> {
  const [row] = await tx.query<{ count: number }>(countAll(valuesOf(filter)))
  return row?.count ?? 0
}

export function parsePosition(position: string): { readonly position: string; readonly id: string } {
  const [number = '', id = ''] = position.split('.', 2)
  return { position: number, id }
}

function valuesOf({ id, after, since, until, category, action, actor, resource, outcome }: AuditFilter): unknown[] {
  const given = [after && parsePosition(after).position, since, until, category, action, actor, resource, outcome, id]
  return given.map((value) => value ?? null)
}

function toEvent({ at, position, ...row }: EventRow): AuditEvent {
  return auditEventSchema.parse({ ...row, timestamp: at.toISOString(), position: `${position}.${row.id}` })
}
