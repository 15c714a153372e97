import type { ExpandedFinding, Expansion } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { planAsRead } from '../action-plan/rules.ts'
import { listFirstPlans } from '../action-plan/store.ts'
import { listFirstRecommendations } from '../recommendation/store.ts'
import { listLastEntries } from '../tracker-log/store.ts'
import type { CalendarDate } from './rules.ts'

/** What an expansion holds at most: the first recommendations and plans, the last entries of the log. */
const most = 200

/** What belongs to a finding, as far as it is wanted. */
export async function expand(
  tx: Tx,
  findingId: string,
  wanted: readonly Expansion[],
  today: CalendarDate,
): Promise<Pick<ExpandedFinding, 'recommendations' | 'action_plans' | 'log'>> {
  const wants = new Set(wanted)
  const [recommendations, plans, log] = await Promise.all([
    wants.has('recommendations') ? listFirstRecommendations(tx, findingId, most) : undefined,
    wants.has('action_plans') ? listFirstPlans(tx, findingId, most) : undefined,
    wants.has('log') ? listLastEntries(tx, findingId, most) : undefined,
  ])
  return {
    ...(recommendations === undefined ? {} : { recommendations }),
    ...(plans === undefined ? {} : { action_plans: plans.map((plan) => planAsRead(plan, today)) }),
    ...(log === undefined ? {} : { log }),
  }
}
