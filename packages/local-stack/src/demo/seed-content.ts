import type { CreatedBy } from '@postern/contracts'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { type TenantDb, openTenantDb } from '@postern/tenant-db'
import type { SignedCaller } from '../signed-caller.ts'
import { makeConnectors } from './connectors.ts'
import type { DemoData } from './generate.ts'
import { writeConnectors } from './write-connectors.ts'
import { hasFindings, writeFindings } from './write-findings.ts'
import { writeEvidence } from './write-evidence.ts'
import { completeTestProcedures, pushUniverse, readEntityIds } from './write-universe.ts'

/** The installation that a demo is written to. */
export interface DemoTarget {
  readonly gateway: string
  /** Connection string of a service's own role: row-level security holds for what is written too. */
  databaseUrl(service: 'findings' | 'evidence'): string
  /** The ring whose assertions PostgreSQL believes. */
  readonly assertionKeys: string
  readonly evidence: SignedCaller
}

export interface DemoTenantKeys {
  readonly id: string
  /** Value of the key that may do everything. */
  readonly key: string
  /** The key in whose name evidence is brought. */
  readonly sender: { readonly id: string; readonly label: string }
}

const actor: CreatedBy = { type: 'connector', id: 'demo', label: 'Demo data' }

/**
 * Writes the rows of a demo tenant unless they are there. Findings come last and in one transaction: where they are,
 * everything is, and what an interrupted run has left is made complete by the next one.
 */
export async function seedContent(target: DemoTarget, tenant: DemoTenantKeys, makeData: () => DemoData): Promise<void> {
  const ring = parseKeyRing(target.assertionKeys)
  const assertion = (): string => mintAssertion(ring, tenant.id, Date.now())
  const findings = openDb(target.databaseUrl('findings'))
  const evidence = openDb(target.databaseUrl('evidence'))
  try {
    if (await findings.read({ assertion: assertion() }, hasFindings)) return
    const data = makeData()
    const universe = { gateway: target.gateway, key: tenant.key }
    await pushUniverse(universe, data.people, data.universe)
    await writeConnectors(universe, makeConnectors(data.people))
    const principal = {
      tenantId: tenant.id,
      kind: 'api_key',
      id: tenant.sender.id,
      label: tenant.sender.label,
      scopes: ['write:evidence'],
    } as const
    const refs = await writeEvidence(data.evidence, { service: target.evidence, principal, db: evidence, assertion })
    await completeTestProcedures(universe, data.universe)
    const entityIds = await readEntityIds(universe)
    await findings.write({ assertion: assertion() }, async (tx) => {
      // Another run may have come first while this one was uploading.
      if (await hasFindings(tx)) return
      await writeFindings(tx, data.findings, { actor, entityIds, evidence: refs })
    })
  } finally {
    await Promise.all([findings.close(), evidence.close()])
  }
}

function openDb(connectionString: string): TenantDb {
  return openTenantDb({
    connectionString,
    maxConnections: 1,
    connectTimeoutMs: 5_000,
    queryTimeoutMs: 10_000,
    applicationName: 'postern-demo',
  })
}
