import type { Connector, CreateConnectorBody, Schedule } from '@postern/contracts'
import { type Tx, getRow, statement } from '@postern/tenant-db'
import type { SealedSecret } from '../secret/store.ts'
import { retiredPrefix } from './rules.ts'

interface ConnectorRow {
  readonly id: string
  readonly key: string
  readonly name: string
  readonly type: Connector['type']
  readonly dataset: Connector['dataset']
  readonly hierarchy: Connector['hierarchy']
  readonly config: Connector['config']
  readonly secrets: { readonly name: string; readonly at: string }[]
  readonly mapping: Connector['mapping']
  readonly schedule_cron: string | null
  readonly schedule_time_zone: string | null
  readonly missing_policy: Connector['missing_policy']
  readonly authoritative: boolean
  readonly safety: Connector['safety']
  readonly state: Connector['state']
  readonly consecutive_failures: number
  readonly last_run_at: Date | null
  readonly next_run_at: Date | null
  readonly created_at: Date
  readonly updated_at: Date
  readonly version: number
}

const columns = `
  c.id, c.key, c.name, c.type, c.dataset, c.hierarchy, c.config, c.mapping, c.schedule_cron, c.schedule_time_zone,
  c.missing_policy, c.authoritative, c.safety, c.state, c.consecutive_failures, c.last_run_at, c.next_run_at, c.created_at, c.updated_at,
  c.version,
  (
    select coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'at', s.updated_at) order by s.name), '[]')
    from sync.connector_secret s
    where s.tenant_id = c.tenant_id and s.connector_id = c.id
  ) as secrets`

// Keys are unique in a tenant, so the order is total. Served by connector_key_unique, which has the collation of the
// comparison.
const selectPage = statement(
  'sync_select_connectors',
  `select ${columns}
  from sync.connector c
  where c.retired_at is null
    and ($1::text is null or c.key = $1)
    and ($2::text is null or c.key > $2)
  order by c.key
  limit $3`,
)

export async function selectConnectors(
  tx: Tx,
  {
    key,
    after,
    limit,
  }: { readonly key: string | undefined; readonly after: string | undefined; readonly limit: number },
): Promise<Connector[]> {
  const rows = await tx.query<ConnectorRow>(selectPage([key ?? null, after ?? null, limit]))
  return rows.map(toConnector)
}

const count = statement(
  'sync_count_connectors',
  `select count(*)::integer as total
  from sync.connector c
  where c.retired_at is null and ($1::text is null or c.key = $1)`,
)

export async function countConnectors(tx: Tx, key: string | undefined): Promise<number> {
  return getRow(await tx.query<{ total: number }>(count([key ?? null]))).total
}

const findById = statement(
  'sync_find_connector',
  `select ${columns} from sync.connector c where c.id = $1::uuid and c.retired_at is null`,
)
const findByKey = statement(
  'sync_find_connector_by_key',
  `select ${columns} from sync.connector c where c.key = $1::text and c.retired_at is null`,
)

/** Finds a connector by its id, or by `key:` and its key. */
export async function findConnector(tx: Tx, address: string): Promise<Connector | undefined> {
  const one = address.startsWith('key:') ? findByKey([address.slice(4)]) : findById([address])
  const [row] = await tx.query<ConnectorRow>(one)
  return row === undefined ? undefined : toConnector(row)
}

const insert = statement(
  'sync_insert_connector',
  `insert into sync.connector (
    tenant_id, id, key, name, type, dataset, hierarchy, config, mapping, schedule_cron, schedule_time_zone, next_run_at,
    missing_policy, safety, authoritative
  )
  values ((select tenancy.tenant_id()), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
)

/** Throws a violation of `connector_key_unique` if the key is in use. */
export async function insertConnector(
  tx: Tx,
  id: string,
  body: CreateConnectorBody,
  nextRunAt: Date | undefined,
): Promise<void> {
  await tx.execute(
    insert([
      id,
      body.key,
      body.name,
      body.type,
      body.dataset,
      body.hierarchy === undefined ? null : JSON.stringify(body.hierarchy),
      JSON.stringify(body.config),
      JSON.stringify(body.mapping),
      body.schedule?.cron ?? null,
      body.schedule?.time_zone ?? null,
      nextRunAt ?? null,
      body.missing_policy,
      JSON.stringify(body.safety),
      body.authoritative,
    ]),
  )
}

export interface ConnectorState {
  readonly name: string
  readonly config: Connector['config']
  readonly mapping: Connector['mapping']
  readonly schedule: Schedule | null
  readonly nextRunAt: Date | null
  readonly missingPolicy: Connector['missing_policy']
  readonly authoritative: boolean
  readonly safety: Connector['safety']
  readonly state: Connector['state']
}

const update = statement(
  'sync_update_connector',
  `update sync.connector c
  set
    name = $3, config = $4, mapping = $5, schedule_cron = $6, schedule_time_zone = $7, next_run_at = $8,
    missing_policy = $9, safety = $10, state = $11, authoritative = $12,
    consecutive_failures = case when $11::text = 'active' and c.state <> 'active' then 0 else c.consecutive_failures end,
    updated_at = now(), version = c.version + 1
  where c.id = $1::uuid and c.version = $2::integer and c.retired_at is null`,
)

/** Returns false if the connector no longer has this version. */
export async function updateConnector(tx: Tx, id: string, version: number, to: ConnectorState): Promise<boolean> {
  const changed = await tx.execute(
    update([
      id,
      version,
      to.name,
      JSON.stringify(to.config),
      JSON.stringify(to.mapping),
      to.schedule?.cron ?? null,
      to.schedule?.time_zone ?? null,
      to.nextRunAt,
      to.missingPolicy,
      JSON.stringify(to.safety),
      to.state,
      to.authoritative,
    ]),
  )
  return changed > 0
}

const underWay = `exists (
    select
    from sync.run r
    where r.connector_id = c.id and r.source = 'connector'
      and r.status in ('queued', 'fetching', 'validating', 'diffing', 'applying')
  )`
const findUnderWay = statement(
  'sync_has_run_under_way',
  `select ${underWay} as found from sync.connector c where c.id = $1::uuid`,
)

export async function hasRunUnderWay(tx: Tx, id: string): Promise<boolean> {
  const [row] = await tx.query<{ found: boolean }>(findUnderWay([id]))
  return row?.found === true
}

// The former key becomes free. The new key is random, because earlier releases allowed connectors with the prefix.
const retire = statement(
  'sync_retire_connector',
  `update sync.connector c
  set
    retired_at = now(), retired_key = c.key, key = '${retiredPrefix}' || gen_random_uuid(), schedule_cron = null,
    schedule_time_zone = null, next_run_at = null, config = '{}', state = 'paused', updated_at = now(),
    version = c.version + 1
  where c.id = $1::uuid and c.retired_at is null and not ${underWay} and ($2::integer is null or c.telling = $2::integer)`,
)
const forgetSecrets = statement('sync_forget_secrets', 'delete from sync.connector_secret s where s.connector_id = $1')

/**
 * Retires a connector and erases its secrets. Returns false if a run is in progress, or if one started after the update with this
 * number.
 */
export async function retireConnector(tx: Tx, id: string, updateNumber: number | undefined): Promise<boolean> {
  if ((await tx.execute(retire([id, updateNumber ?? null]))) === 0) return false
  await tx.execute(forgetSecrets([id]))
  return true
}

const putSecret = statement(
  'sync_put_secret',
  `insert into sync.connector_secret (tenant_id, connector_id, name, sealed)
  values ((select tenancy.tenant_id()), $1, $2, $3)
  on conflict (tenant_id, connector_id, name) do update set sealed = excluded.sealed, updated_at = now()`,
)
const dropSecret = statement(
  'sync_drop_secret',
  'delete from sync.connector_secret s where s.connector_id = $1 and s.name = $2',
)

export async function storeSecret(tx: Tx, connectorId: string, name: string, sealed: string | null): Promise<void> {
  await tx.execute(sealed === null ? dropSecret([connectorId, name]) : putSecret([connectorId, name, sealed]))
}

// One statement, so that a new secret never goes to the old address.
const findOpenable = statement(
  'sync_find_openable',
  `select ${columns},
    (
      select coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'sealed', s.sealed) order by s.name), '[]')
      from sync.connector_secret s
      where s.tenant_id = c.tenant_id and s.connector_id = c.id
    ) as sealed
  from sync.connector c
  where c.id = $1::uuid and c.retired_at is null`,
)

export async function findWithSecrets(
  tx: Tx,
  id: string,
): Promise<{ readonly connector: Connector; readonly sealed: readonly SealedSecret[] } | undefined> {
  const [row] = await tx.query<ConnectorRow & { readonly sealed: SealedSecret[] }>(findOpenable([id]))
  return row && { connector: toConnector(row), sealed: row.sealed }
}

const begin = statement(
  'sync_begin_telling',
  'update sync.connector c set telling = c.telling + 1 where c.id = $1::uuid returning c.telling',
)

/** Returns a number higher than that of every earlier update and run of the connector. */
export async function nextUpdateNumber(tx: Tx, connectorId: string): Promise<number> {
  return getRow(await tx.query<{ telling: number }>(begin([connectorId]))).telling
}

const setNextRun = statement(
  'sync_set_next_run',
  `update sync.connector c
  set next_run_at = $3
  where c.id = $1::uuid and c.next_run_at = $2::timestamptz and c.state <> 'paused'`,
)

/** Sets the next time of a schedule. Returns false if the schedule has changed since `due` was set. */
export async function moveSchedule(tx: Tx, id: string, due: Date, next: Date | undefined): Promise<boolean> {
  return (await tx.execute(setNextRun([id, due, next ?? null]))) > 0
}

function toConnector(row: ConnectorRow): Connector {
  const { schedule_cron: cron, schedule_time_zone: zone } = row
  return {
    id: row.id,
    key: row.key,
    name: row.name,
    type: row.type,
    dataset: row.dataset,
    hierarchy: row.hierarchy,
    config: row.config,
    secrets: Object.fromEntries(
      row.secrets.map(({ name, at }) => [name, { set: true as const, updated_at: new Date(at).toISOString() }]),
    ),
    mapping: row.mapping,
    schedule: cron === null || zone === null ? null : { cron, time_zone: zone },
    missing_policy: row.missing_policy,
    authoritative: row.authoritative,
    safety: row.safety,
    state: row.state,
    consecutive_failures: row.consecutive_failures,
    last_run_at: row.last_run_at?.toISOString() ?? null,
    next_run_at: row.next_run_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    version: row.version,
  }
}
