import type { Tx } from '@postern/tenant-db'
import type { LogDraft } from '../tracker-log/rules.ts'
import { derivedStatus } from './rules.ts'
import { listCarriedOut, updateRecommendation } from './store.ts'

/** Moves the recommendations of a locked finding to what their plans make of them, and says what to log about it. */
export async function followPlans(tx: Tx, findingId: string): Promise<LogDraft[]> {
  const drafts: LogDraft[] = []
  for (const { recommendation, plans } of await listCarriedOut(tx, findingId)) {
    const to = derivedStatus(recommendation.status, plans)
    if (to === undefined || to === recommendation.status) continue
    let current = recommendation
    // Verified is reached by way of implemented, as every recommendation reaches it.
    for (const status of to === 'verified' && current.status === 'accepted' ? (['implemented', to] as const) : [to]) {
      const changes = [{ field: 'status', from: current.status, to: status }]
      current = await updateRecommendation(tx, { ...current, status })
      drafts.push({ findingId, recommendationId: recommendation.id, kind: 'status_change', changes })
    }
  }
  return drafts
}
