import type { Tenant } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'

interface TenantRow {
  readonly [column: string]: unknown
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly status: Tenant['status']
  readonly version: number
  readonly created_at: Date
}

const columns = 't.id, t.slug, t.name, t.status, t.version, t.created_at'

/** Makes a tenant. Needs the operator's assertion; violates `tenant_slug_unique` when the slug is taken. */
export async function insertTenant(tx: Tx, { slug, name }: { slug: string; name: string }): Promise<Tenant> {
  const [row] = await tx.query<TenantRow>({
    name: 'keys_insert_tenant',
    text: `select ${columns} from keys.create_tenant($1, $2) as t`,
    values: [slug, name],
  })
  if (row === undefined) throw new Error('an insert gave no row')
  return toTenant(row)
}

/** The tenants by slug, `limit` at most. Needs the operator's assertion. */
export async function listTenants(tx: Tx, limit: number): Promise<Tenant[]> {
  const rows = await tx.query<TenantRow>({
    name: 'keys_list_tenants',
    text: `select ${columns} from keys.list_tenants($1) as t order by t.slug`,
    values: [limit],
  })
  return rows.map(toTenant)
}

/** Sets a tenant's status; undefined when no tenant has the id or slug. Needs the operator's assertion. */
export async function setTenantStatus(tx: Tx, idOrSlug: string, status: Tenant['status']): Promise<Tenant | undefined> {
  const [row] = await tx.query<TenantRow>({
    name: 'keys_set_tenant_status',
    text: `select ${columns} from keys.set_tenant_status($1, $2) as t`,
    values: [idOrSlug, status],
  })
  if (row === undefined) return undefined
  await tx.query({
    name: 'keys_note_suspension',
    text: 'select tenancy.note_suspension($1::uuid, $2::boolean)',
    values: [row.id, status === 'suspended'],
  })
  return toTenant(row)
}

function toTenant({ created_at, id, slug, name, status, version }: TenantRow): Tenant {
  return { id, slug, name, status, created_at: created_at.toISOString(), version }
}
