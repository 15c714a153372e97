import {
  type KeyRecord,
  type PersonLookup,
  type PersonRecord,
  type TenantRecord,
  keyRecordSchema,
  personRecordSchema,
  tenantRecordSchema,
} from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'

/** `now` is the database clock in epoch ms. */
export interface LookupResult<T> {
  readonly record: T | undefined
  readonly now: number
}

export interface FoundKeys {
  readonly records: readonly (KeyRecord | undefined)[]
  readonly now: number
}

/**
 * Returns key records by hash, across tenants. HOT PATH: gateways call it for each unknown key. Served by
 * api_key_hash_unique.
 */
export async function findKeyRecords(tx: Tx, hashes: readonly string[]): Promise<FoundKeys> {
  const rows = await tx.query<Record<string, unknown> & { id: string | null; hash: string; now: number }>({
    name: 'keys_find_key_records',
    text: `
      select asked.hash, k.id, k.tenant_id as "tenantId", k.tenant_name as "tenantName", k.tenant_status as "tenantStatus",
             k.tenant_version as "tenantVersion", k.label, k.last_four as "lastFour", k.scopes,
             k.allowed_addresses as "allowedAddresses", k.expires_at_ms::float8 as "expiresAt", k.revoked, k.version,
             k.key_limit as "keyLimit", k.tenant_limit as "tenantLimit", nullif(k.limit_id, k.id) as "limitId", k.read_at_ms::float8 as "readAt",
             floor(extract(epoch from statement_timestamp()) * 1000)::float8 as now
        from unnest($1::text[]) with ordinality as asked (hash, place)
        left join lateral keys.find_key_by_hash(decode(asked.hash, 'hex')) as k on true
       order by asked.place`,
    values: [hashes],
  })
  const [first] = rows
  if (first === undefined || rows.length !== hashes.length)
    throw new Error('the left join returned an unexpected number of rows')
  const records = rows.map(({ now: _now, ...record }) =>
    record.id === null ? undefined : keyRecordSchema.parse(withoutNullLimit(record)),
  )
  return { records, now: first.now }
}

function withoutNullLimit({ limitId, ...record }: Record<string, unknown>): Record<string, unknown> {
  return limitId === null ? record : { ...record, limitId }
}

export async function findKeyRecord(tx: Tx, hash: string): Promise<LookupResult<KeyRecord>> {
  const { records, now } = await findKeyRecords(tx, [hash])
  return { record: records[0], now }
}

/** Finds a tenant for people, whose tokens name it by its id or slug. */
export async function findTenantRecord(
  tx: Tx,
  wanted: { readonly tenantId: string } | { readonly slug: string },
): Promise<LookupResult<TenantRecord>> {
  const [tenantId, slug] = 'slug' in wanted ? [null, wanted.slug] : [wanted.tenantId, null]
  const [row] = await tx.query<Record<string, unknown> & { tenantName: string | null; now: number }>({
    name: 'keys_find_tenant_record',
    text: `
      select asked.tenant_id as "tenantId", t.tenant_name as "tenantName", t.tenant_status as "tenantStatus",
             t.tenant_version as "tenantVersion", t.tenant_limit as "tenantLimit", t.read_at_ms::float8 as "readAt",
             floor(extract(epoch from statement_timestamp()) * 1000)::float8 as now
        from (select coalesce($1::uuid, keys.find_tenant_id($2)) as tenant_id) as asked
        left join keys.find_tenant(asked.tenant_id) as t on true`,
    values: [tenantId, slug],
  })
  if (row === undefined) throw new Error('the left join returned no row')
  const { now, ...record } = row
  return { record: row.tenantName === null ? undefined : tenantRecordSchema.parse(record), now }
}

/** Finds what the tenant's directory says of a person. All values come from one snapshot. */
export async function findPersonRecord(
  tx: Tx,
  { tenantId, attribute, name }: PersonLookup,
): Promise<{ readonly record: PersonRecord; readonly now: number }> {
  const [row] = await tx.query<Record<string, unknown> & { readonly now: number }>({
    name: 'keys_find_person_record',
    text: `
      select encode(p.hash, 'hex') as hash, p.version::float8 as version, p.status, p.read_at_ms::float8 as "readAt",
             floor(extract(epoch from statement_timestamp()) * 1000)::float8 as now
        from keys.find_person($1, $2, $3) as p`,
    values: [tenantId, attribute, name],
  })
  if (row === undefined) throw new Error('the revocation log has no counter row')
  const { now, ...record } = row
  return { record: personRecordSchema.parse(record), now }
}
