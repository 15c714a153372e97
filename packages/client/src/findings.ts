import type { ActionPlan, ExpandedFinding, Finding, Recommendation } from '@postern/contracts'
import type { CallOptions, Connection } from './connection.ts'
import type { AnswerOf, BodyOf, ItemOf, QueryOf } from './operations.ts'
import { type Pages, pagesOf } from './pages.ts'
import {
  type Changeable,
  type MoveOptions,
  type Readable,
  type Target,
  addressOf,
  changeableMethods,
  ifMatchOf,
  readableMethods,
} from './resource.ts'

/** Reading needs `read:findings`, writing `write:findings`. A key that can only write gets short responses. */
export interface Findings
  extends Readable<ExpandedFinding>, Changeable<Finding, BodyOf<'updateFinding'>, AnswerOf<'updateFinding'>> {
  /** Finds by id, `ref:<reference>` or `ext:<external id>`. `expand` adds related resources. */
  get(address: string, options?: CallOptions & QueryOf<'getFinding'>): Promise<ExpandedFinding>
  /** `expand` adds related resources to each finding. */
  list(filter?: QueryOf<'listFindings'>, options?: CallOptions): Pages<ItemOf<'listFindings'>>
  /** Counts by severity, status, entity, owner or age. */
  summary(filter?: QueryOf<'summarizeFindings'>, options?: CallOptions): Promise<AnswerOf<'summarizeFindings'>>
  create(finding: BodyOf<'createFinding'>, options?: CallOptions): Promise<AnswerOf<'createFinding'>>
  /** Creates or changes up to 500 findings, all or none, or each separately. */
  bulk(items: BodyOf<'bulkFindings'>, options?: CallOptions): Promise<AnswerOf<'bulkFindings'>>
  /** The possible next statuses and their requirements. */
  transitions(target: Target, options?: CallOptions): Promise<AnswerOf<'findingTransitions'>>
  changeStatus(
    target: Target,
    move: BodyOf<'changeFindingStatus'>,
    options?: MoveOptions,
  ): Promise<AnswerOf<'changeFindingStatus'>>
  recommendations(
    target: Target,
    filter?: QueryOf<'listRecommendationsOfFinding'>,
    options?: CallOptions,
  ): Pages<Recommendation>
  recommend(
    target: Target,
    recommendation: BodyOf<'createRecommendation'>,
    options?: CallOptions,
  ): Promise<AnswerOf<'createRecommendation'>>
  actionPlans(target: Target, filter?: QueryOf<'listActionPlansOfFinding'>, options?: CallOptions): Pages<ActionPlan>
  proposePlan(
    target: Target,
    plan: BodyOf<'createActionPlan'>,
    options?: CallOptions,
  ): Promise<AnswerOf<'createActionPlan'>>
  /** The remediation tracker log, oldest first. */
  log(target: Target, filter?: QueryOf<'listLogOfFinding'>, options?: CallOptions): Pages<ItemOf<'listLogOfFinding'>>
  addLogEntry(
    target: Target,
    entry: BodyOf<'createLogEntry'>,
    options?: CallOptions,
  ): Promise<AnswerOf<'createLogEntry'>>
  verifyLog(target: Target, options?: CallOptions): Promise<AnswerOf<'verifyLogOfFinding'>>
  /** Findings and their plans as a NIST OSCAL plan of action and milestones. */
  exportPoam(filter?: QueryOf<'exportPoam'>, options?: CallOptions): Promise<AnswerOf<'exportPoam'>>
}

export interface Recommendations
  extends
    Readable<Recommendation>,
    Changeable<Recommendation, BodyOf<'updateRecommendation'>, AnswerOf<'updateRecommendation'>> {
  list(filter?: QueryOf<'listRecommendations'>, options?: CallOptions): Pages<Recommendation>
}

export interface ActionPlans
  extends Readable<ActionPlan>, Changeable<ActionPlan, BodyOf<'updateActionPlan'>, AnswerOf<'updateActionPlan'>> {
  list(filter?: QueryOf<'listActionPlans'>, options?: CallOptions): Pages<ActionPlan>
  changeStatus(
    target: Target,
    move: BodyOf<'changeActionPlanStatus'>,
    options?: MoveOptions,
  ): Promise<AnswerOf<'changeActionPlanStatus'>>
  /** Agrees on a later due date. */
  extend(
    target: Target,
    extension: BodyOf<'extendActionPlan'>,
    options?: MoveOptions,
  ): Promise<AnswerOf<'extendActionPlan'>>
  bulk(items: BodyOf<'bulkActionPlans'>, options?: CallOptions): Promise<AnswerOf<'bulkActionPlans'>>
}

export interface RemediationLog {
  list(filter?: QueryOf<'listLog'>, options?: CallOptions): Pages<ItemOf<'listLog'>>
  /** Returns a signed checkpoint of the log. Keep it. */
  checkpoint(query?: QueryOf<'getLogCheckpoint'>, options?: CallOptions): Promise<AnswerOf<'getLogCheckpoint'>>
  /** The public keys that verify checkpoints (RFC 7517). */
  keys(options?: CallOptions): Promise<AnswerOf<'logCheckpointKeys'>>
}

function paramsOf(target: Target): { id: string } {
  return { id: addressOf(target) }
}

export function openFindings(connection: Connection): Findings {
  return {
    ...readableMethods(connection, 'getFinding'),
    ...changeableMethods(connection, 'getFinding', 'updateFinding'),
    get: async (address, { signal, ...query } = {}) =>
      await connection.call('getFinding', { params: { id: address }, query, signal }),
    list: (filter, options = {}) => pagesOf(connection, 'listFindings', {}, filter, options),
    summary: async (query = {}, options = {}) => await connection.call('summarizeFindings', { query, ...options }),
    create: async (body, options = {}) => await connection.call('createFinding', { body, ...options }),
    bulk: async (body, options = {}) => await connection.call('bulkFindings', { body, ...options }),
    transitions: async (target, options = {}) =>
      await connection.call('findingTransitions', { params: paramsOf(target), ...options }),
    changeStatus: async (target, body, { ifMatch, ...options } = {}) =>
      await connection.call('changeFindingStatus', {
        params: paramsOf(target),
        body,
        headers: ifMatchOf(target, ifMatch),
        ...options,
      }),
    recommendations: (target, filter, options = {}) =>
      pagesOf(connection, 'listRecommendationsOfFinding', paramsOf(target), filter, options),
    recommend: async (target, body, options = {}) =>
      await connection.call('createRecommendation', { params: paramsOf(target), body, ...options }),
    actionPlans: (target, filter, options = {}) =>
      pagesOf(connection, 'listActionPlansOfFinding', paramsOf(target), filter, options),
    proposePlan: async (target, body, options = {}) =>
      await connection.call('createActionPlan', { params: paramsOf(target), body, ...options }),
    log: (target, filter, options = {}) => pagesOf(connection, 'listLogOfFinding', paramsOf(target), filter, options),
    addLogEntry: async (target, body, options = {}) =>
      await connection.call('createLogEntry', { params: paramsOf(target), body, ...options }),
    exportPoam: async (query = {}, options = {}) => await connection.call('exportPoam', { query, ...options }),
    verifyLog: async (target, options = {}) =>
      await connection.call('verifyLogOfFinding', { params: paramsOf(target), ...options }),
  }
}

export function openRecommendations(connection: Connection): Recommendations {
  return {
    ...readableMethods(connection, 'getRecommendation'),
    ...changeableMethods(connection, 'getRecommendation', 'updateRecommendation'),
    list: (filter, options = {}) => pagesOf(connection, 'listRecommendations', {}, filter, options),
  }
}

export function openActionPlans(connection: Connection): ActionPlans {
  return {
    ...readableMethods(connection, 'getActionPlan'),
    ...changeableMethods(connection, 'getActionPlan', 'updateActionPlan'),
    list: (filter, options = {}) => pagesOf(connection, 'listActionPlans', {}, filter, options),
    changeStatus: async (target, body, { ifMatch, ...options } = {}) =>
      await connection.call('changeActionPlanStatus', {
        params: { id: addressOf(target) },
        body,
        headers: ifMatchOf(target, ifMatch),
        ...options,
      }),
    extend: async (target, body, { ifMatch, ...options } = {}) =>
      await connection.call('extendActionPlan', {
        params: { id: addressOf(target) },
        body,
        headers: ifMatchOf(target, ifMatch),
        ...options,
      }),
    bulk: async (body, options = {}) => await connection.call('bulkActionPlans', { body, ...options }),
  }
}

export function openRemediationLog(connection: Connection): RemediationLog {
  return {
    list: (filter, options = {}) => pagesOf(connection, 'listLog', {}, filter, options),
    checkpoint: async (query = {}, options = {}) => await connection.call('getLogCheckpoint', { query, ...options }),
    keys: async (options = {}) => await connection.call('logCheckpointKeys', options),
  }
}
