import { type Registry, databaseAway, observeDatabase } from '@postern/service-kit'
import { type TenantDb, openTenantDb, refusingWhenAway } from '@postern/tenant-db'
import type { Config } from './config.ts'
import { type Findings, openFindings } from './findings/findings.ts'

/** Dependencies of the routes. */
export interface Deps {
  readonly db: TenantDb
  /** For the current day of reads. Writes use the database's clock. */
  readonly now: () => Date
  readonly findings: Findings
  ready(): Promise<void>
  databaseId(): Promise<string | undefined>
  close(): Promise<void>
}

/** Opens the database pool. It connects at the first request. */
export async function openDeps(config: Config, { metrics }: { readonly metrics: Registry }): Promise<Deps> {
  const db = openTenantDb({
    ...config.database,
    connectAttempts: 3,
    applicationName: 'postern-universe',
    observer: observeDatabase(metrics),
  })
  const findings = openFindings(config.findings)
  return {
    db: refusingWhenAway(db, databaseAway),
    now: () => new Date(),
    findings,
    ready: async () => await db.ping('universe'),
    databaseId: async () => await db.databaseId(),
    close: async () => {
      await findings.close()
      await db.close()
    },
  }
}
