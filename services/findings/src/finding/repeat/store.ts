import { type Tx, statement } from '@postern/tenant-db'
import { type RepeatCandidate, comparedLength } from './rules.ts'

/** Lists the last hundred closed findings about these entities. */
export async function listRepeatCandidates(tx: Tx, entityIds: readonly string[]): Promise<RepeatCandidate[]> {
  return await tx.query<RepeatCandidate & Record<string, unknown>>(candidates([entityIds, comparedLength]))
}

// finding_entity_by_entity, finding_pk
const candidates = statement(
  'findings_repeat_candidates',
  `select f.id, f.reference, f.title, f.severity, f.closed_on as closed_date, left(f.criteria, $2::integer) as criteria
  from findings.finding f
  where f.status = 'closed'
    and f.id = any(array(select link.finding_id from findings.finding_entity link where link.entity_id = any($1::uuid[])))
  order by f.closed_on desc, f.id
  limit 100`,
)
