import type { KeyPolicy, KeyPolicyEvent } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'

export interface StoredPolicy {
  /** On the database clock. */
  readonly now: Date
  readonly maxKeyDays: number
  /** If empty, keys need no address list. */
  readonly requiredAddresses: readonly string[]
  readonly forbidWildcards: boolean
  readonly requireOwner: boolean
  /** Active keys; null for any number. */
  readonly mostKeys: number | null
  readonly rotationDays: number
  /** Null: idle keys are not revoked. */
  readonly revokeIdleDays: number | null
  readonly auditRetentionDays: number
  readonly version: number
  readonly changed: { readonly at: Date; readonly by: Actor } | null
}

interface PolicyRow {
  readonly now: Date
  readonly max_key_days: number
  readonly required_addresses: string[]
  readonly forbid_wildcards: boolean
  readonly require_owner: boolean
  readonly most_keys: number | null
  readonly rotation_days: number
  readonly revoke_idle_days: number | null
  readonly audit_retention_days: number
  readonly policy_version: number
  readonly at: Date | null
  readonly actor_type: string | null
  readonly actor_id: string | null
  readonly actor_label: string | null
}

// The event is absent until the first change. Served by key_policy_event_pk.
const policyQuery = `
  select date_trunc('milliseconds', clock_timestamp()) as now, t.max_key_days,
         t.required_addresses::text[] as required_addresses,
         t.forbid_wildcards, t.require_owner, t.most_keys, t.rotation_days, t.revoke_idle_days, t.audit_retention_days, t.policy_version,
         e.at, e.actor_type, e.actor_id, e.actor_label
    from keys.tenant as t
    left join keys.key_policy_event as e on e.tenant_id = t.tenant_id and e.version = t.policy_version`

export async function findKeyPolicy(tx: Tx): Promise<StoredPolicy | undefined> {
  const [row] = await tx.query<PolicyRow>({ name: 'keys_find_key_policy', text: policyQuery, values: [] })
  return row === undefined ? undefined : toPolicy(row)
}

export async function findKeyPolicyForChange(tx: Tx): Promise<StoredPolicy | undefined> {
  const text = `${policyQuery}\n   for no key update of t`
  const [row] = await tx.query<PolicyRow>({ name: 'keys_find_key_policy_for_change', text, values: [] })
  return row === undefined ? undefined : toPolicy(row)
}

/** Prevents changes of the policy until the transaction ends. Returns how many active keys it allows. */
export async function lockMostKeys(tx: Tx): Promise<number | null> {
  const text = 'select t.most_keys from keys.tenant as t for share of t'
  const [row] = await tx.query<{ most_keys: number | null }>({ name: 'keys_lock_most_keys', text, values: [] })
  return row?.most_keys ?? null
}

export type KeyRules = Omit<StoredPolicy, 'now' | 'version' | 'changed'>

export async function setKeyPolicy(tx: Tx, rules: KeyRules, actor: Actor): Promise<void> {
  await tx.execute({
    name: 'keys_set_key_policy',
    text: `
      with changed as (
        update keys.tenant as t
           set max_key_days = $1, required_addresses = $2::text[]::cidr[],
               forbid_wildcards = $6, require_owner = $7, most_keys = $8, rotation_days = $9, revoke_idle_days = $10,
               audit_retention_days = $11
        returning t.tenant_id, t.policy_version, t.max_key_days, t.required_addresses,
                  t.forbid_wildcards, t.require_owner, t.most_keys, t.rotation_days, t.revoke_idle_days,
                  t.audit_retention_days)
      insert into keys.key_policy_event (
        tenant_id, version, actor_type, actor_id, actor_label, max_key_days, required_addresses,
        forbid_wildcards, require_owner, most_keys, rotation_days, revoke_idle_days, audit_retention_days)
      select c.tenant_id, c.policy_version, $3, $4, $5, c.max_key_days, c.required_addresses,
             c.forbid_wildcards, c.require_owner, c.most_keys, c.rotation_days, c.revoke_idle_days, c.audit_retention_days
        from changed as c`,
    values: [
      rules.maxKeyDays,
      rules.requiredAddresses,
      actor.type,
      actor.id,
      actor.label,
      rules.forbidWildcards,
      rules.requireOwner,
      rules.mostKeys,
      rules.rotationDays,
      rules.revokeIdleDays,
      rules.auditRetentionDays,
    ],
  })
}

interface EventRow {
  readonly version: number
  readonly at: Date
  readonly actor_type: string
  readonly actor_id: string
  readonly actor_label: string
  readonly max_key_days: number
  readonly required_addresses: string[]
  readonly forbid_wildcards: boolean
  readonly require_owner: boolean
  readonly most_keys: number | null
  readonly rotation_days: number
  readonly revoke_idle_days: number | null
  readonly audit_retention_days: number
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
             e.required_addresses::text[] as required_addresses,
             e.forbid_wildcards, e.require_owner, e.most_keys, e.rotation_days, e.revoke_idle_days, e.audit_retention_days
        from keys.key_policy_event as e
       where $1::integer is null or e.version < $1
       order by e.version desc
       limit $2`,
    values: [after ?? null, limit],
  })
  return rows.map(({ at, actor_type: type, actor_id: id, actor_label: label, ...event }) => ({
    ...event,
    at: at.toISOString(),
    actor: { type, id, label },
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

export function toKeyPolicy(policy: StoredPolicy): KeyPolicy {
  const { maxKeyDays, requiredAddresses, version, changed } = policy
  return {
    max_key_days: maxKeyDays,
    required_addresses: [...requiredAddresses],
    forbid_wildcards: policy.forbidWildcards,
    require_owner: policy.requireOwner,
    most_keys: policy.mostKeys,
    rotation_days: policy.rotationDays,
    revoke_idle_days: policy.revokeIdleDays,
    audit_retention_days: policy.auditRetentionDays,
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
    forbidWildcards: row.forbid_wildcards,
    requireOwner: row.require_owner,
    mostKeys: row.most_keys,
    rotationDays: row.rotation_days,
    revokeIdleDays: row.revoke_idle_days,
    auditRetentionDays: row.audit_retention_days,
    version: row.policy_version,
    changed: isKnown ? { at, by: { type, id, label } } : null,
  }
}
