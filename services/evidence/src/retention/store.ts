import type { EvidencePolicy } from '@postern/contracts'
import { type Tx, statement } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'

const unchanged: EvidencePolicy = { retention_years: 7, changed_at: null, changed_by: null, version: 0 }

interface PolicyRow {
  readonly retention_years: number
  readonly version: number
  readonly changed_at: Date
  readonly changed_by_type: NonNullable<EvidencePolicy['changed_by']>['type']
  readonly changed_by_id: string
  readonly changed_by_label: string
}

// policy_pk
const select = statement(
  'evidence_find_policy',
  `select p.retention_years, p.version, p.changed_at, p.changed_by_type, p.changed_by_id, p.changed_by_label
  from evidence.policy p
  where p.tenant_id = (select tenancy.tenant_id())`,
)

/** Seven years by default. */
export async function findPolicy(tx: Tx): Promise<EvidencePolicy> {
  const [row] = await tx.query<PolicyRow>(select([]))
  return row === undefined ? unchanged : toPolicy(row)
}

/** Undefined if the version has changed. */
export async function setPolicy(
  tx: Tx,
  version: number,
  retentionYears: number,
  by: Actor,
): Promise<EvidencePolicy | undefined> {
  const [row] = await tx.query<PolicyRow>(
    version === 0
      ? make([retentionYears, by.type, by.id, by.label])
      : set([retentionYears, by.type, by.id, by.label, version]),
  )
  return row === undefined ? undefined : toPolicy(row)
}

const returning = `
  returning policy.retention_years, policy.version, policy.changed_at,
    policy.changed_by_type, policy.changed_by_id, policy.changed_by_label`

const make = statement(
  'evidence_make_policy',
  `insert into evidence.policy (tenant_id, retention_years, changed_by_type, changed_by_id, changed_by_label)
  values ((select tenancy.tenant_id()), $1, $2, $3, $4)
  on conflict (tenant_id) do nothing
  ${returning}`,
)

const set = statement(
  'evidence_set_policy',
  `update evidence.policy
  set retention_years = $1, changed_by_type = $2, changed_by_id = $3, changed_by_label = $4,
    changed_at = clock_timestamp(), version = version + 1
  where tenant_id = (select tenancy.tenant_id()) and version = $5
  ${returning}`,
)

function toPolicy({ retention_years, version, changed_at, ...by }: PolicyRow): EvidencePolicy {
  return {
    retention_years,
    changed_at: changed_at.toISOString(),
    changed_by: { type: by.changed_by_type, id: by.changed_by_id, label: by.changed_by_label },
    version,
  }
}
