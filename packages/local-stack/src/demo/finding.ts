import type { ActionPlan, Finding, LogEntry, PersonRef, Recommendation } from '@postern/contracts'

export interface DemoFinding {
  readonly id: string
  readonly external_id: string
  readonly title: string
  readonly condition: string
  readonly criteria: string
  readonly cause: string
  readonly consequence: string
  readonly corrective_action: string
  readonly cause_category: Finding['cause_category']
  readonly severity: Finding['severity']
  readonly type: Finding['type']
  readonly source: NonNullable<Finding['source']>
  readonly engagement_ref: string
  readonly status: Finding['status']
  readonly entities: readonly string[]
  readonly owner: PersonRef
  readonly identifiedOn: string
  readonly targetOn: string
  readonly createdAt: Date
  readonly repeatOf: string | null
  readonly moves: readonly FindingMove[]
  readonly recommendations: readonly DemoRecommendation[]
  readonly plans: readonly DemoPlan[]
  readonly log: readonly DemoEntry[]
}

export interface FindingMove {
  readonly at: Date
  readonly to: Finding['status']
  readonly note: string | null
  readonly by: PersonRef | null
  readonly acceptedUntil: string | null
}

export interface DemoRecommendation {
  readonly id: string
  readonly external_id: string
  readonly text: string
  readonly priority: Recommendation['priority']
  readonly createdAt: Date
  readonly moves: readonly {
    readonly at: Date
    readonly to: Recommendation['status']
    readonly rationale: string | null
  }[]
}

export interface DemoPlan {
  readonly id: string
  readonly external_id: string
  readonly title: string
  readonly owner: PersonRef
  readonly priority: NonNullable<ActionPlan['priority']>
  readonly dueOn: string
  readonly createdAt: Date
  readonly recommendations: readonly string[]
  readonly extensions: readonly {
    readonly at: Date
    readonly from: string
    readonly to: string
    readonly reason: string
    readonly approvedBy: PersonRef
  }[]
  readonly moves: readonly PlanMove[]
}

export interface PlanMove {
  readonly at: Date
  readonly to: ActionPlan['status']
  readonly percent: number
  readonly note: string | null
  readonly verifiedBy: PersonRef | null
}

export interface DemoEntry {
  readonly at: Date
  readonly kind: LogEntry['kind']
  readonly planId: string | null
  readonly recommendationId: string | null
  readonly body: string | null
  readonly changes: LogEntry['changes']
  readonly evidence: number | null
  readonly onBehalfOf: string | null
}

export function needsEvidence({ severity }: Pick<DemoFinding, 'severity'>): boolean {
  return severity === 'critical' || severity === 'high'
}
