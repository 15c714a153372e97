import { type Registry, databaseUnavailable, observeDatabase } from '@postern/service-kit'
import { type TenantDb, openTenantDb, rejectOnOutage } from '@postern/tenant-db'
import type { Config } from './config.ts'
import { type Findings, openFindings } from './findings/findings.ts'

export interface Deps {
  readonly db: TenantDb
  readonly importDb: TenantDb
  /** For the current day of reads. Writes use the database's clock. */
  readonly now: () => Date
  readonly findings: Findings
  ready(): Promise<void>
  databaseId(): Promise<string | undefined>
  close(): Promise<void>
}

const importConnections = 4
/** Longer than PostgreSQL lets the statements of imports run (`allowLongStatements`). */
const importQueryTimeoutMs = 55_000

export async function openDeps(config: Config, { metrics }: { readonly metrics: Registry }): Promise<Deps> {
  const open = (database: Config['database'], applicationName: string, pool?: string): TenantDb =>
    openTenantDb({ ...database, connectAttempts: 3, applicationName, observer: observeDatabase(metrics, pool) })
  const db = open(config.database, 'postern-universe')
  const importDb = open(
    {
      ...config.database,
      maxConnections: importConnections,
      queryTimeoutMs: Math.max(importQueryTimeoutMs, config.database.queryTimeoutMs),
    },
    'postern-universe-imports',
    'imports',
  )
  const findings = openFindings(config.findings)
  return {
    db: rejectOnOutage(db, databaseUnavailable),
    importDb: rejectOnOutage(importDb, databaseUnavailable),
    now: () => new Date(),
    findings,
    ready: async () => await db.ping('universe'),
    databaseId: async () => await db.databaseId(),
    close: async () => {
      await findings.close()
      await importDb.close()
      await db.close()
    },
  }
}
