import type { KeyPolicy, KeyPolicyEvent } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'

export interface StoredPolicy {
  /** On the database clock. */
  readonly now: Date
  readonly maxKeyDays: number
  /** If empty, keys need no address list. */
  readonly requiredAddresses: readonly string[]
  readonly version: number
  readonly changed: { readonly at: Date; readonly by: Actor } | null
}

interface PolicyRow {
  readonly [column: string]: unknown
  readonly now: Date
  readonly max_key_days: number
  readonly required_addresses: string[]
  readonly policy_version: number
  readonly at: Date | null
  readonly actor_type: string | null
  readonly actor_id: string | null
  readonly actor_label: string | null
}

// Absent until the first change. Served by key_policy_event_pk.
const select = `
  select date_trunc('milliseconds', clock_timestamp()) as now, t.max_key_days,
         t.required_addresses::text[] as required_addresses, t.policy_version,
         e.at, e.actor_type, e.actor_id, e.actor_label
    from keys.tenant as t
    left join keys.key_policy_event as e on e.tenant_id = t.tenant_id and e.version = t.policy_version`

export async function findKeyPolicy(tx: Tx): Promise<StoredPolicy | undefined> {
  const [row] = await tx.query<PolicyRow>({ name: 'keys_find_key_policy', text: select, values: [] })
  return row === undefined ? undefined : toPolicy(row)
}

export async function findKeyPolicyForChange(tx: Tx): Promise<StoredPolicy | undefined> {
  const text = `${select}\n   for no key update of t`
  const [row] = await tx.query<PolicyRow>({ name: 'keys_find_key_policy_for_change', text, values: [] })
  return row === undefined ? undefined : toPolicy(row)
}

export async function setKeyPolicy(
  tx: Tx,
  { maxKeyDays, requiredAddresses }: Pick<StoredPolicy, 'maxKeyDays' | 'requiredAddresses'>,
  actor: Actor,
): Promise<void> {
  await tx.execute({
    name: 'keys_set_key_policy',
    text: `
      with changed as (
        update keys.tenant as t
           set max_key_days = $1, required_addresses = $2::text[]::cidr[]
        returning t.tenant_id, t.policy_version, t.max_key_days, t.required_addresses)
      insert into keys.key_policy_event (
        tenant_id, version, actor_type, actor_id, actor_label, max_key_days, required_addresses)
      select c.tenant_id, c.policy_version, $3, $4, $5, c.max_key_days, c.required_addresses
        from changed as c`,
    values: [maxKeyDays, requiredAddresses, actor.type, actor.id, actor.label],
  })
}

interface EventRow {
  readonly [column: string]: unknown
  readonly version: number
  readonly at: Date
  readonly actor_type: string
  readonly actor_id: string
  readonly actor_label: string
  readonly max_key_days: number
  readonly required_addresses: string[]
}

/** Lists changes before the version `after`, newest first. Served by key_policy_event_pk. */
export async function listKeyPolicyEvents(
  tx: Tx,
  { after, limit }: { readonly after: number | undefined; readonly limit: number },
): Promise<KeyPolicyEvent[]> {
  const rows = await tx.query<EventRow>({
    name: 'keys_list_policy_events',
    text: `
      select e.version, e.at, e.actor_type, e.actor_id, e.actor_label, e.max_key_days,
             e.required_addresses::text[] as required_addresses
        from keys.key_policy_event as e
       where $1::integer is null or e.version < $1
       order by e.version desc
       limit $2`,
    values: [after ?? null, limit],
  })
  return rows.map(({ at, actor_type: type, actor_id: id, actor_label: label, ...event }) => ({
    version: event.version,
    at: at.toISOString(),
    actor: { type, id, label },
    max_key_days: event.max_key_days,
    required_addresses: event.required_addresses,
  }))
}

export async function countKeyPolicyEvents(tx: Tx): Promise<number> {
  const [row] = await tx.query<{ count: number }>({
    name: 'keys_count_policy_events',
    text: 'select count(*)::float8 as count from keys.key_policy_event as e',
    values: [],
  })
  return row?.count ?? 0
}

export function toKeyPolicy({ maxKeyDays, requiredAddresses, version, changed }: StoredPolicy): KeyPolicy {
  return {
    max_key_days: maxKeyDays,
    required_addresses: [...requiredAddresses],
    changed_at: changed?.at.toISOString() ?? null,
    changed_by: changed?.by ?? null,
    version,
  }
}

function toPolicy(row: PolicyRow): StoredPolicy {
  const { at, actor_type: type, actor_id: id, actor_label: label } = row
  const isKnown = at !== null && type !== null && id !== null && label !== null
  return {
    now: row.now,
    maxKeyDays: row.max_key_days,
    requiredAddresses: row.required_addresses,
    version: row.policy_version,
    changed: isKnown ? { at, by: { type, id, label } } : null,
  }
}
