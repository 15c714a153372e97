import type { OpenCountsAnswer } from '@postern/contracts/internal'
import { type Tx, statement } from '@postern/tenant-db'

type Counts = OpenCountsAnswer['counts']

export async function countOpenFindings(tx: Tx, entityIds: readonly string[]): Promise<Counts> {
  return await tx.query<Counts[number]>(openCounts([entityIds]))
}

// finding_entity_by_entity, then finding_pk.
const openCounts = statement(
  'findings_open_counts',
  `select link.entity_id,
    count(*) filter (where f.severity = 'critical')::integer as critical,
    count(*) filter (where f.severity = 'high')::integer as high,
    count(*) filter (where f.severity = 'medium')::integer as medium,
    count(*) filter (where f.severity = 'low')::integer as low
  from findings.finding_entity link
  join findings.finding f on f.tenant_id = link.tenant_id and f.id = link.finding_id
  where link.entity_id = any($1::uuid[]) and f.status in ('open', 'in_remediation', 'pending_validation')
  group by link.entity_id`,
)
