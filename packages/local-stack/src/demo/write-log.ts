import type { CreatedBy, EvidenceRef, LogEntry } from '@postern/contracts'
import { hashOf, sealEntry } from '@postern/log-chain'
import type { Tx } from '@postern/tenant-db'
import type { DemoEntry, DemoFinding } from './finding.ts'
import { memberOf } from './random.ts'

export interface LogWriter {
  readonly actor: CreatedBy
  readonly evidence: readonly EvidenceRef[]
}

const perInsert = 500

export async function writeLog(
  tx: Tx,
  findings: readonly DemoFinding[],
  { actor, evidence }: LogWriter,
): Promise<void> {
  const [clock] = await tx.query<{ now: Date }>({ text: 'select now()::timestamptz(3) as now', values: [] })
  const recordedAt = clock?.now.toISOString() ?? ''
  const heads = new Map<string, { seq: number; hash: string }>()
  const happened = findings
    .flatMap(({ id, log }) => log.map((entry) => ({ findingId: id, entry })))
    .toSorted((one, other) => one.entry.at.getTime() - other.entry.at.getTime())
  for (let from = 0; from < happened.length; from += perInsert) {
    const rows = happened.slice(from, from + perInsert).map(({ findingId, entry }) => {
      const head = heads.get(findingId)
      const seq = (head?.seq ?? 0) + 1
      const text = sealEntry({
        ...contentOf(entry, evidence),
        seq,
        finding_id: findingId,
        recorded_at: recordedAt,
        actor,
        prev_hash: head?.hash ?? null,
      })
      heads.set(findingId, { seq, hash: hashOf(text) })
      return { findingId, text }
    })
    await tx.execute({
      text: `insert into findings.tracker_log (tenant_id, finding_id, entry)
        select (select tenancy.tenant_id()), new.finding_id, new.entry
        from unnest($1::uuid[], $2::text[]) with ordinality as new (finding_id, entry, place)
        order by new.place`,
      values: [rows.map(({ findingId }) => findingId), rows.map(({ text }) => text)],
    })
    await tx.query({ text: 'select findings.place_log_entries($1)', values: [perInsert] })
  }
}

type Content = Omit<LogEntry, 'position' | 'seq' | 'finding_id' | 'recorded_at' | 'actor' | 'prev_hash' | 'hash'>

function contentOf(entry: DemoEntry, evidence: readonly EvidenceRef[]): Content {
  const { at, kind, planId, recommendationId, body, changes, onBehalfOf } = entry
  return {
    action_plan_id: planId,
    recommendation_id: recommendationId,
    kind,
    body,
    changes,
    evidence_refs: entry.evidence === null || evidence.length === 0 ? [] : [memberOf(evidence, entry.evidence)],
    corrects_seq: null,
    occurred_at: at.toISOString(),
    on_behalf_of: onBehalfOf,
  }
}
