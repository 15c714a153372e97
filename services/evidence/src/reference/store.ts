import type { EvidenceRef } from '@postern/contracts'
import { type Tx, statement } from '@postern/tenant-db'

export async function listUnknownPlaces(tx: Tx, refs: readonly EvidenceRef[]): Promise<number[]> {
  const rows = await tx.query<{ place: number }>(
    selectUnknown([
      refs.map(({ evidence_id: id }) => id),
      refs.map(({ sha256 }) => sha256),
      refs.map(({ size }) => String(size)),
    ]),
  )
  return rows.map(({ place }) => place)
}

// file_pk, file_decision_pk
const selectUnknown = statement(
  'evidence_list_unknown_places',
  `select (asked.at - 1)::integer as place
  from unnest($1::uuid[], $2::text[], $3::bigint[]) with ordinality as asked (id, sha256, size_bytes, at)
  where not exists (
    select 1 from evidence.file f
    where f.id = asked.id and f.sha256 = asked.sha256 and f.size_bytes = asked.size_bytes
      and (f.scan <> 'infected' or exists (
        select from evidence.file_decision d
        where d.tenant_id = f.tenant_id and d.file_id = f.id and d.kind = 'released'
      ))
      and not exists (
        select from evidence.file_decision d
        where d.tenant_id = f.tenant_id and d.file_id = f.id and d.kind in ('rejected', 'purged')
      )
  )
  order by asked.at`,
)
