import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'pg'

export interface Witness {
  accept(): Promise<void>
  /** Since the last check. */
  changed(): Promise<string | undefined>
  close(): Promise<void>
}

/** A rejected request or scheduled work may change these. */
const beside =
  /idempotency_record|overdue_(?:notice|scan)|sync\.(run|connector|upload_chunk|webhook_(?:delivery|endpoint|event|feed))|universe\.(import|source_row)|evidence\.upload|tenant_usage|log_checkpoint/

const sealedWithinMs = 60_000

/** Usage is recorded and events are delivered all the time, which does not count. */
const edits = [
  `select 'keys.api_key', concat(count(*), ' ', sum(version)) from keys.api_key`,
  `select 'keys.tenant', concat(count(*), ' ', sum(version), ' ', sum(policy_version)) from keys.tenant`,
  `select 'keys.api_key_event', count(*)::text from keys.api_key_event
    where type not in ('denied_expired', 'denied_revoked', 'denied_address', 'denied_scope', 'used_from_new_address')`,
  `select 'keys.key_policy_event', count(*)::text from keys.key_policy_event`,
  `select 'keys.revocation', count(*)::text from keys.revocation`,
  `select 'sync.webhook_endpoint', concat(count(*), ' ', sum(version)) from sync.webhook_endpoint`,
  `select 'tenancy.audit_event', count(*)::text from tenancy.audit_event
    where actor_type in ('person', 'machine', 'key') and outcome = 'success' and category <> 'connector'
      and action <> 'key.used_from_new_address'`,
]

export async function openWitness(connectionString: string): Promise<Witness> {
  const client = new Client({ connectionString })
  await client.connect()
  const { rows: tables } = await client.query<{ name: string }>(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
      where table_schema in ('findings', 'universe', 'evidence', 'sync') and table_type = 'BASE TABLE'
        and table_name <> 'migration' order by 1`,
  )
  const seen = tables.map(({ name }) => name).filter((name) => !beside.test(name))
  // A written row has a new xmin; a deleted row changes the count.
  const looks = seen.map(
    (name) => `select '${name}' as name, concat(count(*), ' ', max(xmin::text::bigint)) as state from ${name}`,
  )
  const look = [...looks, ...edits].join(' union all ')
  const states = async (): Promise<Map<string, string>> => {
    const { rows } = await client.query<{ name: string; state: string }>({ name: 'look', text: look })
    return new Map(rows.map(({ name, state }) => [name, state]))
  }
  /** Log entries get their position shortly after the commit, without a request. */
  const untilSealed = async (): Promise<void> => {
    for (const from = performance.now(); performance.now() - from < sealedWithinMs;) {
      const { rows } = await client.query(`select from findings.tracker_log where "position" < 0 limit 1`)
      if (rows.length === 0) return
      await wait(20)
    }
    throw new Error('an entry of the log has waited too long for its position')
  }
  let last = await states()
  return {
    accept: async () => {
      await untilSealed()
      last = await states()
    },
    changed: async () => {
      const now = await states()
      const differing = [...now].filter(([name, state]) => last.get(name) !== state).map(([name]) => name)
      last = now
      return differing.length === 0 ? undefined : differing.join(', ')
    },
    close: async () => await client.end(),
  }
}
