import type { Client } from 'pg'

/** A table with a tenant in each row. */
export interface TenantTable {
  readonly schema: string
  readonly name: string
  /** The quoted schema and table. */
  readonly full: string
}

interface Column {
  readonly table: string
  readonly schema: string
  readonly column: string
  readonly type: string
}

/**
 * Inserts one row per tenant into every tenant table, bypassing checks and triggers. Every text contains the tenant's
 * mark. Needs a superuser and an exclusive database.
 */
export async function fillWithMarkedRows(client: Client, marks: ReadonlyMap<string, string>): Promise<TenantTable[]> {
  const { rows: columns } = await client.query<Column>(
    `select n.nspname as schema, c.relname as table, a.attname as column, format_type(a.atttypid, null) as type
       from pg_attribute as a
       join pg_class as c on c.oid = a.attrelid
       join pg_namespace as n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p') and not c.relispartition and a.attnum > 0 and not a.attisdropped
        and a.attgenerated = '' and a.attidentity = ''
        and exists (select from pg_attribute as t where t.attrelid = c.oid and t.attname = 'tenant_id')
      order by 1, 2, a.attnum`,
  )
  const tables = new Map<string, { table: TenantTable; columns: Column[] }>()
  for (const column of columns) {
    const full = `"${column.schema}"."${column.table}"`
    const known = tables.get(full) ?? { table: { schema: column.schema, name: column.table, full }, columns: [] }
    known.columns.push(column)
    tables.set(full, known)
  }
  let number = 0
  await client.query('begin; set local session_replication_role = replica')
  await client.query(`do $$
    declare found record;
    begin
      for found in select conrelid::regclass as owner, conname from pg_constraint
                    where contype = 'c' and connamespace::regnamespace::text not like 'pg\\_%'
                      and connamespace::regnamespace::text <> 'information_schema' and conrelid <> 0 loop
        execute format('alter table %s drop constraint %I', found.owner, found.conname);
      end loop;
    end $$`)
  for (const { table, columns: filled } of tables.values()) {
    for (const [tenant, mark] of marks) {
      const names = filled.map(({ column }) => `"${column}"`).join(', ')
      const values = filled.map((column) => valueOf(column, tenant, mark, (number += 1))).join(', ')
      await client.query(`insert into ${table.full} (${names}) values (${values})`)
    }
  }
  await client.query('commit')
  return [...tables.values()].map(({ table }) => table)
}

/** Returns an SQL literal for the column that contains the tenant's mark if possible. */
function valueOf({ column, type }: Column, tenant: string, mark: string, number: number): string {
  if (column === 'tenant_id') return `'${tenant}'`
  switch (type) {
    case 'uuid':
      return 'gen_random_uuid()'
    case 'uuid[]':
      return 'array[gen_random_uuid()]'
    case 'text':
    case 'character varying':
      return `'${mark} in ${column}'`
    case 'text[]':
      return `array['${mark} in ${column}']`
    case 'jsonb':
      return `'{"is": "${mark}"}'`
    case 'integer[]':
      return `array[${number}]`
    case 'bytea[]':
      return `array['${mark} in ${column}'::bytea]`
    case 'bytea':
      return `sha256('${mark} ${column}'::bytea || uuid_send(gen_random_uuid()))`
    case 'boolean':
      return 'true'
    case 'smallint':
    case 'integer':
    case 'bigint':
    case 'numeric':
    case 'double precision':
    case 'real':
      return String(number)
    case 'interval':
      return "interval '1 day'"
    case 'date':
      return 'current_date'
    case 'xid8':
      return "'1'"
    case 'pg_lsn':
      return "'0/1'"
    case 'cidr[]':
      return "array['10.0.0.0/8'::cidr]"
    default:
      if (type.startsWith('timestamp')) return 'now()'
      throw new Error(`no value is known for ${column}, which is ${type}`)
  }
}
