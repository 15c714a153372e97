import { createHash } from 'node:crypto'
import type { Change, ChangeKind } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'

export interface FeedPlace {
  readonly position: string
  readonly ordinal: number | null
  /** Tells apart two transactions that had the same position. */
  readonly mark: string | null
}

export interface StoredChange extends FeedPlace {
  readonly ordinal: number
  readonly mark: string
  readonly kind: ChangeKind
  readonly resourceId: string
  readonly change: Change['change']
  readonly version: number | null
  readonly committedAt: Date
}

export interface FeedBounds {
  readonly last: string
  readonly pruned: string
  /** Null if it was pruned. */
  readonly lastMark: string | null
  readonly hasUnplaced: boolean
}

export async function findBounds(tx: Tx): Promise<FeedBounds> {
  const [row] = await tx.query<{
    last_position: string | null
    pruned_position: string | null
    last_batch: string | null
    has_unplaced: boolean
  }>({
    name: 'findings_feed_bounds',
    text: `
      select h.last_position, h.pruned_position, b.id as last_batch, exists (
               select
                 from tenancy.change_batch as u
                where u.tenant_id = (select tenancy.tenant_id())
                  and u.made_by is null
                  and u.ended_at is not null) as has_unplaced
        from (values (1)) as one (row)
        left join tenancy.change_head as h on h.tenant_id = (select tenancy.tenant_id())
        left join tenancy.change_batch as b on b.tenant_id = h.tenant_id and b.position = h.last_position`,
    values: [],
  })
  if (row === undefined) throw new Error('the bounds of the feed returned no row')
  return {
    last: row.last_position ?? '0',
    pruned: row.pruned_position ?? '0',
    lastMark: row.last_batch === null ? null : markOf(row.last_batch),
    hasUnplaced: row.has_unplaced,
  }
}

/** Returns whether more may be left. */
export async function assignChangePositions(tx: Tx): Promise<boolean> {
  const [row] = await tx.query<{ more: boolean }>({
    name: 'findings_place_changes',
    text: 'select tenancy.sequence_changes() as more',
    values: [],
  })
  return row?.more ?? false
}

/** Undefined if the position does not exist or was pruned. */
export async function findMark(tx: Tx, position: string): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>({
    name: 'findings_feed_batch',
    text: `
      select b.id
        from tenancy.change_batch as b
       where b.tenant_id = (select tenancy.tenant_id())
         and b.position = $1::bigint`,
    values: [position],
  })
  return row === undefined ? undefined : markOf(row.id)
}

function markOf(batch: string): string {
  return createHash('sha256').update(batch).digest('base64url').slice(0, 11)
}

/** Changes that one statement examines, which limits its time. */
export const windowLength = 20_000

export async function listChanges(
  tx: Tx,
  {
    after,
    kinds,
    limit,
    window,
  }: {
    readonly after: Omit<FeedPlace, 'mark'>
    readonly kinds: readonly ChangeKind[]
    readonly limit: number
    readonly window: number
  },
): Promise<StoredChange[]> {
  const rows = await tx.query<{
    position: string
    ordinal: number
    batch: string
    kind: ChangeKind
    resource_id: string
    change: Change['change']
    version: number | null
    committed_at: Date
  }>({
    name: 'findings_list_changes',
    text: `
      select near.*
        from (
          select b.position, c.ordinal, b.id as batch, c.kind, c.resource_id, c.change, c.version, b.committed_at
          ${behind}
          limit $5
        ) as near
       where near.kind = any ($3)
       order by near.position, near.ordinal
       limit $4`,
    values: [after.position, after.ordinal ?? maxOrdinal, kinds, limit, window],
  })
  return rows.map((row) => ({
    position: row.position,
    ordinal: row.ordinal,
    mark: markOf(row.batch),
    kind: row.kind,
    resourceId: row.resource_id,
    change: row.change,
    version: row.version,
    committedAt: row.committed_at,
  }))
}

const maxOrdinal = 2 ** 31 - 1

const behind = `
            from tenancy.change_batch as b
            join tenancy.change as c on c.tenant_id = b.tenant_id and c.batch_id = b.id
           where b.tenant_id = (select tenancy.tenant_id())
             and b.position >= $1::bigint
             and (b.position > $1::bigint or c.ordinal > $2)
           order by b.position, c.ordinal`

/** Returns the last place of the window after `after`, or undefined if there are fewer changes. */
export async function findWindowEnd(
  tx: Tx,
  after: Omit<FeedPlace, 'mark'>,
  window: number,
): Promise<FeedPlace | undefined> {
  const [row] = await tx.query<{ position: string; ordinal: number; batch: string }>({
    name: 'findings_feed_window_end',
    text: `select b.position, c.ordinal, b.id as batch ${behind} offset $3 limit 1`,
    values: [after.position, after.ordinal ?? maxOrdinal, window - 1],
  })
  return row === undefined ? undefined : { position: row.position, ordinal: row.ordinal, mark: markOf(row.batch) }
}
