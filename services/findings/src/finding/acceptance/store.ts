import { type Tx, statement } from '@postern/tenant-db'

export async function listExpired(tx: Tx, day: string, limit: number): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(expired([day, limit]))
  return rows.map(({ id }) => id)
}

// finding_by_accepted_until
const expired = statement(
  'findings_expired_acceptances',
  `select f.id
  from findings.finding f
  where f.status = 'risk_accepted' and f.accepted_until < $1::date
  order by f.id
  limit $2::integer`,
)
