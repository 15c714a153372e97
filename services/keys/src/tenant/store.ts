import type { Tenant, TenantEvent } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'

interface TenantRow extends Omit<Tenant, 'created_at'> {
  readonly [column: string]: unknown
  readonly created_at: Date
}

interface EventRow extends Omit<TenantEvent, 'at'> {
  readonly [column: string]: unknown
  readonly at: Date
}

/** What is to be of a tenant; what is undefined stays. */
export interface TenantChange {
  readonly status?: Tenant['status'] | undefined
  readonly name?: string | undefined
  /** Requests a minute, as `tenantLimit`. */
  readonly keyLimit?: number | undefined
  readonly tenantLimit?: number | undefined
}

const columns = 't.id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at'

/** Makes a tenant. Needs the operator's assertion; violates `tenant_slug_unique` when the slug is taken. */
export async function insertTenant(
  tx: Tx,
  { slug, name }: { readonly slug: string; readonly name: string },
  operator: string,
): Promise<Tenant> {
  const [row] = await tx.query<TenantRow>({
    name: 'keys_create_tenant',
    text: `select ${columns} from keys.create_tenant($1, $2, $3) as t`,
    values: [slug, name, operator],
  })
  if (row === undefined) throw new Error('an insert gave no row')
  return toTenant(row)
}

/** The tenants by slug, from behind that of `after` on, `limit` at most. Needs the operator's assertion. */
export async function listTenants(tx: Tx, limit: number, after: string | undefined): Promise<Tenant[]> {
  const rows = await tx.query<TenantRow>({
    name: 'keys_list_tenants',
    text: `select ${columns} from keys.list_tenants($1, $2) as t order by t.slug`,
    values: [after ?? null, limit],
  })
  return rows.map(toTenant)
}

/**
 * Changes a tenant and notes by whom; what it is already is no change. Undefined when no tenant has the id or slug. Needs the operator's
 * assertion.
 */
export async function changeTenant(
  tx: Tx,
  idOrSlug: string,
  { status, name, keyLimit, tenantLimit }: TenantChange,
  operator: string,
): Promise<Tenant | undefined> {
  const [row] = await tx.query<TenantRow>({
    name: 'keys_update_tenant',
    text: `select ${columns} from keys.update_tenant($1, $2, $3, $4, $5, $6) as t`,
    values: [idOrSlug, status ?? null, name ?? null, keyLimit ?? null, tenantLimit ?? null, operator],
  })
  if (row === undefined) return undefined
  if (status !== undefined) {
    await tx.query({
      name: 'keys_note_suspension',
      text: 'select tenancy.note_suspension($1::uuid, $2::boolean)',
      values: [row.id, status === 'suspended'],
    })
  }
  return toTenant(row)
}

/** What was done with a tenant, the latest first, before the entry `before`, `limit` at most. Needs the operator's assertion. */
export async function listTenantEvents(
  tx: Tx,
  idOrSlug: string,
  limit: number,
  before: string | undefined,
): Promise<TenantEvent[]> {
  const rows = await tx.query<EventRow>({
    name: 'keys_list_tenant_events',
    text: `
      select e.id, e.type, e.at, e.operator, e.name, e.key_limit, e.tenant_limit
        from keys.list_tenant_events($1, $2, $3) as e
       order by e.id desc`,
    values: [idOrSlug, before ?? null, limit],
  })
  return rows.map(({ id, type, at, operator, name, key_limit, tenant_limit }) => {
    return { id, type, at: at.toISOString(), operator, name, key_limit, tenant_limit }
  })
}

function toTenant({ id, slug, name, status, key_limit, tenant_limit, created_at, version }: TenantRow): Tenant {
  return { id, slug, name, status, key_limit, tenant_limit, created_at: created_at.toISOString(), version }
}
