import type { LogEntry } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { type FindingRow, columns, toFinding } from '../finding/row.ts'
import type { StoredFinding } from '../finding/rules.ts'
import { statement } from '../keyset.ts'
import type { PoamEntry, PoamPlan, PoamRecommendation } from './rules.ts'

/** Evidence that an entry of the log of a finding names. */
export interface PoamEvidence {
  readonly finding_id: string
  readonly refs: LogEntry['evidence_refs']
}

/** Findings by id. */
export async function findFindings(tx: Tx, ids: readonly string[]): Promise<Map<string, StoredFinding>> {
  const rows = await tx.query<FindingRow>(findings([ids]))
  return new Map(rows.map((row) => [row.id, toFinding(row)]))
}

/** The recommendations of findings that were not replaced by others. */
export async function listRecommendationsOf(tx: Tx, findingIds: readonly string[]): Promise<PoamRecommendation[]> {
  return await tx.query<PoamRecommendation>(recommendations([findingIds]))
}

/** The action plans of findings but those that nobody will carry out. */
export async function listPlansOf(tx: Tx, findingIds: readonly string[]): Promise<PoamPlan[]> {
  return await tx.query<PoamPlan>(plans([findingIds]))
}

/** When one of the recommendations and plans of findings was last changed. */
export async function findLastChange(tx: Tx, findingIds: readonly string[]): Promise<Date | undefined> {
  const [row] = await tx.query<{ last: Date | null }>(lastChange([findingIds]))
  return row?.last ?? undefined
}

/** Entries of the log of a finding behind a number. */
export async function listEntries(tx: Tx, findingId: string, after: number, limit: number): Promise<PoamEntry[]> {
  const rows = await tx.query<{ entry: PoamEntry }>(entries([findingId, after, limit]))
  return rows.map(({ entry }) => entry)
}

/** The evidence that the logs of findings name. */
export async function listEvidence(tx: Tx, findingIds: readonly string[]): Promise<PoamEvidence[]> {
  return await tx.query<PoamEvidence>(evidence([findingIds]))
}

// finding_pk
const findings = statement('poam_findings', `select ${columns} from findings.finding f where f.id = any($1::uuid[])`)

// recommendation_number_unique
const recommendations = statement(
  'poam_recommendations',
  `select r.id, r.reference, r.finding_id, r.text, r.priority, r.response, r.response_rationale, r.status
  from findings.recommendation r
  where r.finding_id = any($1::uuid[]) and r.status <> 'superseded'
  order by r.finding_id, r.number`,
)

// action_plan_of_finding_unique
const plans = statement(
  'poam_plans',
  `select p.id, p.reference, p.finding_id, p.title, p.description, p.owner, p.due_on as due_date,
    p.original_due_on as original_due_date, p.extension_count, p.percent_complete, p.status,
    p.completed_on as completed_date, p.verified_on as verified_date
  from findings.action_plan p
  where p.finding_id = any($1::uuid[]) and p.status not in ('rejected', 'cancelled')
  order by p.finding_id, p.created_at, p.id`,
)

const lastChange = statement(
  'poam_last_change',
  `select greatest(
    (select max(r.updated_at) from findings.recommendation r where r.finding_id = any($1::uuid[])),
    (select max(p.updated_at) from findings.action_plan p where p.finding_id = any($1::uuid[])),
    (select max(l.recorded_at) from findings.tracker_log l where l.finding_id = any($1::uuid[]))
  ) as last`,
)

// tracker_log_seq_unique
const entries = statement(
  'poam_entries',
  `select l.entry::jsonb as entry
  from findings.tracker_log l
  where l.finding_id = $1::uuid and l.seq > $2::integer
  order by l.seq
  limit $3`,
)

// tracker_log_with_evidence
const evidence = statement(
  'poam_evidence',
  `select l.finding_id, l.entry::jsonb -> 'evidence_refs' as refs
  from findings.tracker_log l
  where l.finding_id = any($1::uuid[]) and l.has_evidence
  order by l.finding_id, l.seq`,
)
