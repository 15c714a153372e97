import type { EvidenceRef } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'

/** Places in the list, from 0, of what is no file of the tenant's with that size and digest. */
export async function listUnknownPlaces(tx: Tx, refs: readonly EvidenceRef[]): Promise<number[]> {
  const rows = await tx.query<{ place: number }>({
    name: 'evidence_list_unknown_places',
    text: unknownText,
    values: [
      refs.map(({ evidence_id: id }) => id),
      refs.map(({ sha256 }) => sha256),
      refs.map(({ size }) => String(size)),
    ],
  })
  return rows.map(({ place }) => place)
}

// file_pk
const unknownText = `select (asked.at - 1)::integer as place
  from unnest($1::uuid[], $2::text[], $3::bigint[]) with ordinality as asked (id, sha256, size_bytes, at)
  where not exists (
    select 1 from evidence.file f
    where f.id = asked.id and f.sha256 = asked.sha256 and f.size_bytes = asked.size_bytes
  )
  order by asked.at`
