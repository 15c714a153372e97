import type { CreatedBy } from '@postern/contracts'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { type TenantDb, openTenantDb } from '@postern/tenant-db'
import type { SignedCaller } from '../signed-caller.ts'
import { makeConnectors, makeScimUsers } from './connectors.ts'
import type { DemoFinding } from './finding.ts'
import type { DemoData } from './generate.ts'
import { writeConnectors, writeScimUsers } from './write-connectors.ts'
import { countFindings, hasFinding, writeFindings } from './write-findings.ts'
import { writeEvidence } from './write-evidence.ts'
import { completeTestProcedures, pushUniverse, readEntityIds } from './write-universe.ts'

export interface DemoTarget {
  readonly gateway: string
  databaseUrl(service: 'findings' | 'evidence'): string
  readonly assertionKeys: string
  readonly evidence: SignedCaller
}

export interface DemoTenantKeys {
  readonly id: string
  readonly key: string
  readonly sender: { readonly id: string; readonly label: string }
}

const actor: CreatedBy = { type: 'connector', id: 'demo', label: 'Demo data' }

export interface WantedDemo {
  readonly findings: number
  make(): DemoData
  say?(step: string): void
}

/** Findings come last, so a tenant with all findings is complete. A retry resumes. */
export async function seedContent(target: DemoTarget, tenant: DemoTenantKeys, wanted: WantedDemo): Promise<void> {
  const ring = parseKeyRing(target.assertionKeys)
  const assertion = (): string => mintAssertion(ring, tenant.id, Date.now())
  const findings = openDb(target.databaseUrl('findings'))
  const evidence = openDb(target.databaseUrl('evidence'))
  try {
    if ((await findings.read({ assertion: assertion() }, countFindings)) >= wanted.findings) return
    const data = wanted.make()
    const say = (count: number, what: string) => wanted.say?.(`writing ${count.toLocaleString('en')} ${what}`)
    const universe = { gateway: target.gateway, key: tenant.key }
    say(data.universe.entities.length, 'auditable entities')
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
    say(data.evidence.length, 'evidence files')
    const refs = await writeEvidence(data.evidence, { service: target.evidence, principal, db: evidence, assertion })
    await completeTestProcedures(universe, data.universe)
    const entityIds = await readEntityIds(universe)
    say(data.findings.length, 'findings with their logs')
    for (const batch of batchesOf(data.findings)) {
      await findings.write({ assertion: assertion() }, async (tx) => {
        // A batch exists completely or not at all.
        if (await hasFinding(tx, batch[0]?.id ?? '')) return
        await writeFindings(tx, batch, { actor, entityIds, evidence: refs })
      })
    }
  } finally {
    await Promise.all([findings.close(), evidence.close()])
  }
}

/** The assertion must not expire during a transaction. */
const perTransaction = 400

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
    connectTimeoutMs: 60_000,
    queryTimeoutMs: 60_000,
    applicationName: 'postern-demo',
  })
}
