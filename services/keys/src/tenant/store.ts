import type { Tenant, TenantEvent } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'

interface TenantRow extends Omit<Tenant, 'created_at'> {
  readonly created_at: Date
}

interface EventRow extends Omit<TenantEvent, 'at'> {
  readonly at: Date
}

/** An undefined field stays unchanged. */
export interface TenantChange {
  readonly status?: Tenant['status'] | undefined
  readonly name?: string | undefined
  /** Per minute. */
  readonly keyLimit?: number | undefined
  readonly tenantLimit?: number | undefined
}

const columns = 't.id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at'

/** Violates `tenant_slug_unique` if the slug is taken. */
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
  if (row === undefined) throw new Error('the insert returned no row')
  return toTenant(row)
}

/** Lists tenants after the slug `after`. */
export async function listTenants(tx: Tx, limit: number, after: string | undefined): Promise<Tenant[]> {
  const rows = await tx.query<TenantRow>({
    name: 'keys_list_tenants',
    text: `select ${columns} from keys.list_tenants($1, $2) as t order by t.slug`,
    values: [after ?? null, limit],
  })
  return rows.map(toTenant)
}

/** Returns undefined if no tenant has the id or slug. Equal values are no change. */
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

/** Lists events before the entry `before`, newest first. */
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
