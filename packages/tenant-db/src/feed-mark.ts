import { parseUpdatedSince } from '@postern/contracts'
import type { Tx } from './session.ts'
import type { TenantAssertion, TenantDb } from './tenant-transaction.ts'

/** The value of `updated_since` that finds everything which the snapshot of this transaction lacks. */
export async function findFeedMark(tx: Tx): Promise<string> {
  const [row] = await tx.query<{ at: Date; position: string | null }>({
    name: 'tenancy_feed_mark',
    text: `
      select now() as at, (
               select h.last_position
                 from tenancy.change_head as h
                where h.tenant_id = (select tenancy.tenant_id())) as position`,
    values: [],
  })
  if (row === undefined) throw new Error('the end of the feed returned no row')
  return `${row.at.toISOString()}_${row.position ?? '0'}`
}

/** More than can commit before the last transaction that ran at the mark ends. */
const maxBatches = 100_000

/**
 * Returns the earliest `updated_at` of changes that a client may lack. A transaction that began before the mark and
 * committed after it has a later position in the feed.
 */
export async function findChangedFrom(
  db: Pick<TenantDb, 'read'>,
  tenant: TenantAssertion,
  since: string | undefined,
): Promise<string | undefined> {
  if (since === undefined) return undefined
  const { from, position } = parseUpdatedSince(since)
  if (position === undefined) return from
  const [row] = await db.read(tenant, async (tx) =>
    tx.query<{ began_at: Date | null }>({
      name: 'tenancy_changed_from',
      text: `
        select min(late.began_at) as began_at
          from (
            -- change_batch_position_unique
            (select b.began_at
               from tenancy.change_batch as b
              where b.tenant_id = (select tenancy.tenant_id())
                and b.position > $1::bigint
              order by b.position
              limit ${maxBatches})
            union all
            -- change_batch_unplaced
            select b.began_at
              from tenancy.change_batch as b
             where b.tenant_id = (select tenancy.tenant_id())
               and b.ended_at is not null) as late`,
      values: [position],
    }),
  )
  const began = row?.began_at?.toISOString()
  return began !== undefined && began < from ? began : from
}
