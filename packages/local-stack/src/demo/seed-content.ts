import type { CreatedBy } from '@postern/contracts'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { type TenantDb, openTenantDb } from '@postern/tenant-db'
import type { SignedCaller } from '../signed-caller.ts'
import { makeConnectors, makeScimUsers } from './connectors.ts'
import type { DemoFinding } from './finding.ts'
import type { DemoData } from './generate.ts'
import { writeConnectors, writeScimUsers } from './write-connectors.ts'
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
 * everything is, and what an interrupted run has left is made complete by the next one. Those of a demo that is scaled need
 * several: when it is interrupted between them, it stays without the rest.
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
    await writeScimUsers(universe, makeScimUsers(data))
    await writeConnectors(universe, makeConnectors(data))
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
    for (const [index, batch] of batchesOf(data.findings).entries()) {
      const isFirst = index === 0
      const goesOn = await findings.write({ assertion: assertion() }, async (tx) => {
        // Another run may have come first while this one was uploading.
        if (isFirst && (await hasFindings(tx))) return false
        await writeFindings(tx, batch, { actor, entityIds, evidence: refs })
        return true
      })
      if (!goesOn) return
    }
  } finally {
    await Promise.all([findings.close(), evidence.close()])
  }
}

/** Findings of one transaction: all of a demo, and of one that is scaled as many as are written while an assertion lives. */
const perTransaction = 400

/** What is repeated comes before what repeats it. */
function batchesOf(findings: readonly DemoFinding[]): DemoFinding[][] {
  const ordered = findings.toSorted((one, other) => Number(one.repeatOf !== null) - Number(other.repeatOf !== null))
  return Array.from({ length: Math.ceil(ordered.length / perTransaction) }, (_none, index) =>
    ordered.slice(index * perTransaction, (index + 1) * perTransaction),
  )
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
