import type { Statement, TenantDb, TenantDbOptions } from '../src/index.ts'
import type { PostgresProxy } from './postgres-proxy.ts'
import { openPostgresProxy } from './postgres-proxy.ts'
import type { TenantTables } from './tenant-tables.ts'
import { createTenantTables, sql } from './tenant-tables.ts'

export interface ProxiedTables extends AsyncDisposable {
  readonly tables: TenantTables
  readonly proxy: PostgresProxy
  open(options?: Partial<TenantDbOptions>): Promise<TenantDb>
}

export async function createProxiedTables(): Promise<ProxiedTables> {
  const tables = await createTenantTables()
  const url = tables.database.url('findings')
  const proxy = await openPostgresProxy(url)
  return {
    tables,
    proxy,
    open: async (options = {}) => {
      const db = tables.open({ connectionString: proxy.through(url), maxConnections: 1, ...options })
      await db.ping()
      return db
    },
    [Symbol.asyncDispose]: async () => {
      await tables[Symbol.asyncDispose]()
      await proxy[Symbol.asyncDispose]()
    },
  }
}

export function insertParent(tenantId: string, name: string): Statement {
  return sql('insert into probe.parent (tenant_id, name) values ($1, $2)', tenantId, name)
}

/** Returns the rows of a query for the process id of the connection's server process. */
export async function backend(db: TenantDb): Promise<unknown> {
  return await db.system((tx) => tx.query(sql('select pg_backend_pid() as pid')))
}
