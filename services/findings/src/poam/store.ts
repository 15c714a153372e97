import type { EvidenceRef, PersonRef } from '@postern/contracts'
import { type Tx, statement } from '@postern/tenant-db'
import { jsonText } from '../finding/row.ts'
import type { StoredFinding } from '../finding/rules.ts'
import { listStatement } from '../keyset.ts'
import type { PoamEntry, PoamPlan, PoamRecommendation } from './rules.ts'

export async function listOwnersOf(tx: Tx, findingIds: readonly string[]): Promise<PersonRef[]> {
  const rows = await tx.query<{ owner: PersonRef }>(owners([findingIds]))
  return rows.map(({ owner }) => owner)
}

export async function findLastChange(tx: Tx, findingIds: readonly string[]): Promise<Date | undefined> {
  const [row] = await tx.query<{ last: Date | null }>(lastChange([findingIds]))
  return row?.last ?? undefined
}

/** A part of the document about one finding. Its log has several pieces, because it can be long. */
export interface Piece {
  readonly part: 'observation' | 'risk' | 'log' | 'finding' | 'item'
  readonly findingId: string
  readonly after: number
}

/** Few, because a log entry can be long. */
export const entriesPerPiece = 5

export interface StoredPiece {
  readonly part: Piece['part']
  readonly finding: StoredFinding | null
  readonly recommendations: readonly PoamRecommendation[] | null
  readonly plans: readonly PoamPlan[] | null
  readonly entries: readonly PoamEntry[] | null
  readonly evidence: readonly (readonly EvidenceRef[])[] | null
}

export async function listPieces(tx: Tx, wanted: readonly Piece[], today: string): Promise<StoredPiece[]> {
  return await tx.query<StoredPiece & Record<string, unknown>>(
    pieces([
      today,
      wanted.map(({ part }) => part),
      wanted.map(({ findingId }) => findingId),
      wanted.map(({ after }) => after),
    ]),
  )
}

export async function countEntries(tx: Tx, findingIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const rows = await tx.query<{ finding_id: string; last: number }>(lastEntries([findingIds]))
  return new Map(rows.map(({ finding_id: id, last }) => [id, last]))
}

const planColumns = `
  p.id, p.reference, p.finding_id, p.title, p.description, p.owner, p.due_on as due_date,
  p.original_due_on as original_due_date, p.extension_count, p.percent_complete, p.status,
  p.completed_on as completed_date, p.verified_on as verified_date`

// action_plan_of_finding_unique
const owners = listStatement(
  'poam_owners',
  `select p.owner
  from findings.action_plan p
  where p.finding_id = any($1::uuid[]) and p.status not in ('rejected', 'cancelled')
  group by p.owner
  order by min(p.created_at), p.owner`,
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
const lastEntries = statement(
  'poam_last_entries',
  `select l.finding_id, max(l.seq)::integer as last
  from findings.tracker_log l
  where l.finding_id = any($1::uuid[])
  group by l.finding_id`,
)

// Sorts only the places, and reads each piece when the cursor reaches it.
const pieces = listStatement(
  'poam_pieces',
  `select
    piece.part,
    case when piece.part <> 'log' then (
      select (${jsonText})::json from findings.finding t where t.id = piece.id
    ) end as finding,
    case when piece.part = 'risk' then (
      select json_agg(row_to_json(shown))
      from (
        select r.id, r.reference, r.finding_id, r.text, r.priority, r.response, r.response_rationale, r.status
        from findings.recommendation r
        where r.finding_id = piece.id and r.status <> 'superseded'
        order by r.number
      ) as shown
    ) end as recommendations,
    case when piece.part = 'risk' then (
      select json_agg(row_to_json(shown))
      from (
        select ${planColumns}
        from findings.action_plan p
        where p.finding_id = piece.id and p.status not in ('rejected', 'cancelled')
        order by p.created_at, p.id
      ) as shown
    ) end as plans,
    case when piece.part = 'log' then (
      select json_agg(l.entry::json order by l.seq)
      from findings.tracker_log l
      where l.finding_id = piece.id and l.seq > piece.after and l.seq <= piece.after + ${entriesPerPiece}
    ) end as entries,
    case when piece.part = 'observation' then (
      select json_agg(l.entry::json -> 'evidence_refs' order by l.seq)
      from findings.tracker_log l
      where l.finding_id = piece.id and l.has_evidence
    ) end as evidence
  from unnest($2::text[], $3::uuid[], $4::integer[]) with ordinality as piece (part, id, after, place)
  order by piece.place`,
)
