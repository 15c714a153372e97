import type { Whoami } from '@postern/contracts'
import { type AuditEvents, openAuditEvents } from './audit-events.ts'
import { type CallOptions, type ConnectionOptions, connect } from './connection.ts'
import { type Custody, openCustody } from './custody.ts'
import { type Evidence, openEvidence } from './evidence.ts'
import {
  type ActionPlans,
  type Findings,
  type Recommendations,
  type RemediationLog,
  openActionPlans,
  openFindings,
  openRecommendations,
  openRemediationLog,
} from './findings.ts'
import { type Keys, openKeys } from './keys.ts'
import { type Sync, openSync } from './sync.ts'
import {
  type Changes,
  type Entities,
  type Hierarchies,
  type People,
  type TestProcedures,
  openChanges,
  openEntities,
  openHierarchies,
  openPeople,
  openTestProcedures,
} from './universe.ts'
import { type Webhooks, openWebhooks } from './webhooks.ts'

/**
 * The API for one key or person. Methods throw PosternProblem if the API rejects a request; safe requests are retried.
 */
export interface PosternClient {
  readonly findings: Findings
  readonly recommendations: Recommendations
  readonly actionPlans: ActionPlans
  readonly remediationLog: RemediationLog
  readonly changes: Changes
  readonly entities: Entities
  readonly hierarchies: Hierarchies
  readonly testProcedures: TestProcedures
  readonly people: People
  readonly evidence: Evidence
  readonly sync: Sync
  /** Needs the access token of an administrator. */
  readonly keys: Keys
  /** Needs the access token of an auditor or a machine. */
  readonly auditEvents: AuditEvents
  /** Needs the access token of an administrator. */
  readonly custody: Custody
  /** Needs the access token of an administrator. */
  readonly webhooks: Webhooks
  /** Returns the caller and its scopes or roles. */
  whoami(options?: CallOptions): Promise<Whoami>
}

/** Sends nothing. Throws a TypeError if the URL or the key is invalid. */
export function createPosternClient(options: ConnectionOptions): PosternClient {
  const connection = connect(options)
  return {
    findings: openFindings(connection),
    recommendations: openRecommendations(connection),
    actionPlans: openActionPlans(connection),
    remediationLog: openRemediationLog(connection),
    changes: openChanges(connection),
    entities: openEntities(connection),
    hierarchies: openHierarchies(connection),
    testProcedures: openTestProcedures(connection),
    people: openPeople(connection),
    evidence: openEvidence(connection),
    sync: openSync(connection),
    keys: openKeys(connection),
    auditEvents: openAuditEvents(connection),
    custody: openCustody(connection),
    webhooks: openWebhooks(connection),
    whoami: async (callOptions = {}) => await connection.call('whoami', callOptions),
  }
}
