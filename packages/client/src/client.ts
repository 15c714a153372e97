import type { Whoami } from '@postern/contracts'
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

/**
 * The API as one key, or one person, may use it. All methods throw PosternProblem when the API refuses. What can be sent
 * again without harm is sent again when the API is busy or away, as the options say.
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
  /** For the access token of an administrator. */
  readonly keys: Keys
  /** For the access token of an administrator. */
  readonly custody: Custody
  /** Who the credentials are and what they may do. */
  whoami(options?: CallOptions): Promise<Whoami>
}

/** Gives a client of the API. Throws a TypeError when the address or the key cannot be right; nothing is sent yet. */
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
    custody: openCustody(connection),
    whoami: async (callOptions = {}) => await connection.call('whoami', callOptions),
  }
}
