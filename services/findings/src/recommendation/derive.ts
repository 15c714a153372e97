import type { Tx } from '@postern/tenant-db'
import type { LogDraft } from '../tracker-log/rules.ts'
import { stepsToStatus } from './rules.ts'
import { listRecommendationProgress, updateRecommendation } from './store.ts'

/** Moves recommendations to the statuses that their plans imply. Call it after a change of a plan or a response. */
export async function deriveRecommendationStatuses(tx: Tx, findingId: string): Promise<LogDraft[]> {
  const drafts: LogDraft[] = []
  for (const { recommendation, byPlans } of await listRecommendationProgress(tx, findingId)) {
    let current = recommendation
    for (const status of stepsToStatus(recommendation.status, byPlans)) {
      const changes = [{ field: 'status', from: current.status, to: status }]
      current = await updateRecommendation(tx, { ...current, status })
      drafts.push({ findingId, recommendationId: recommendation.id, kind: 'status_change', changes })
    }
  }
  return drafts
}
