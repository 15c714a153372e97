import { type HealthReason, type KeyHealth, healthReasons } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'

/** Served by api_key_health_by_reason and policy_review_pk. */
export async function countReasons(tx: Tx): Promise<KeyHealth> {
  const [rows, [review]] = await Promise.all([
    tx.query<{ readonly reason: HealthReason; readonly keys: number }>({
      name: 'keys_count_reasons',
      text: 'select h.reason, count(*)::float8 as keys from keys.api_key_health as h group by h.reason',
      values: [],
    }),
    tx.query<{ readonly is_done: boolean }>({
      name: 'keys_is_reviewed',
      text: 'select not exists (select from keys.policy_review as r) as is_done',
      values: [],
    }),
  ])
  const counts = new Map(rows.map(({ reason, keys }) => [reason, keys]))
  return {
    reasons: healthReasons.map((reason) => ({ reason, keys: counts.get(reason) ?? 0 })),
    reviewed: review?.is_done ?? true,
  }
}

/** Assesses up to `limit` keys whose review is due. Returns whether there were any. */
export async function reviewKeys(tx: Tx, limit: number): Promise<boolean> {
  const [row] = await tx.query<{ readonly has_reviewed: boolean }>({
    name: 'keys_review_keys',
    text: 'select keys.review_keys($1) as has_reviewed',
    values: [limit],
  })
  return row?.has_reviewed === true
}

export async function recordExpiring(tx: Tx): Promise<void> {
  await tx.execute({ name: 'keys_note_expiring', text: 'select keys.note_expiring()', values: [] })
}
