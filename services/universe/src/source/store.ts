import type { RetireSourceBody } from '@postern/contracts/internal'
import { type Tx, statement } from '@postern/tenant-db'

/** Rows of a retired connector pass to other connectors that deliver them. Returns false if a later request was applied. */
export async function retireSource(
  tx: Tx,
  connectorId: string,
  { telling, retired }: RetireSourceBody,
): Promise<boolean> {
  if ((await tx.execute(retire([connectorId, telling, retired]))) === 0) return false
  if (retired) await tx.execute(passOn([connectorId]))
  return true
}

const retire = statement(
  'universe_retire_source',
  `insert into universe.source_connector as s (tenant_id, connector_id, telling, retired_at)
  values ((select tenancy.tenant_id()), $1::text, $2::integer, case when $3::boolean then now() end)
  on conflict (tenant_id, connector_id) do update
  set telling = excluded.telling, retired_at = case when $3::boolean then coalesce(s.retired_at, now()) end
  where s.telling <= excluded.telling`,
)

const passOn = statement(
  'universe_pass_source_rows_on',
  `update universe.source_row other
  set hash = null
  from universe.source_row mine
  where mine.connector_id = $1::text and other.scope = mine.scope and other.source_key = mine.source_key
    and other.connector_id <> mine.connector_id and other.hash is not null`,
)
