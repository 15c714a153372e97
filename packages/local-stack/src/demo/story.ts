import type { ActionPlan, CreateFinding, Finding, PushedEntity } from '@postern/contracts'

/** An entity that stories speak of. Its dates are ages in days. */
export type StoryEntity = Omit<
  PushedEntity,
  'external_id' | 'parent_external_id' | 'risk_assessed_at' | 'last_audit_date'
> & {
  readonly key: string
  readonly parent?: string
  readonly assessed?: number
  readonly audited?: number
}

/** A finding that is told in full: what was found, and how far its remedy has come. */
export type StoryFinding = Pick<
  CreateFinding,
  | 'title'
  | 'condition'
  | 'criteria'
  | 'cause'
  | 'consequence'
  | 'corrective_action'
  | 'cause_category'
  | 'severity'
  | 'type'
  | 'engagement_ref'
> & {
  /** Keys of its entities. */
  readonly entities: readonly string[]
  readonly daysAgo: number
  /** E-mail address of the owner. */
  readonly owner: string
  readonly status: Finding['status']
  readonly source?: NonNullable<Finding['source']>
  /** Title of the closed finding that it repeats. */
  readonly repeats?: string
  /** Of an accepted risk: for how many days from today. */
  readonly acceptedForDays?: number
  readonly plans?: readonly { readonly status: ActionPlan['status']; readonly extensions: number }[]
}

export interface Stories {
  readonly entities: readonly StoryEntity[]
  readonly findings: readonly StoryFinding[]
}
