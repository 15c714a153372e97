import type * as contracts from '@postern/contracts'

type Route = contracts.Route
type Contracts = typeof contracts

type ContractName = { [N in keyof Contracts]: Contracts[N] extends Route ? N : never }[keyof Contracts]

/** Method and path by name. The compiler checks them against the contracts. */
export const operations = {
  whoami: ['GET', '/api/v1/whoami'],
  listChanges: ['GET', '/api/v1/changes'],

  listFindings: ['GET', '/api/v1/findings'],
  getFinding: ['GET', '/api/v1/findings/:id'],
  summarizeFindings: ['GET', '/api/v1/findings/summary'],
  createFinding: ['POST', '/api/v1/findings'],
  updateFinding: ['PATCH', '/api/v1/findings/:id'],
  changeFindingStatus: ['POST', '/api/v1/findings/:id/status'],
  findingTransitions: ['GET', '/api/v1/findings/:id/transitions'],
  bulkFindings: ['POST', '/api/v1/findings/bulk'],
  listRecommendations: ['GET', '/api/v1/recommendations'],
  listRecommendationsOfFinding: ['GET', '/api/v1/findings/:id/recommendations'],
  getRecommendation: ['GET', '/api/v1/recommendations/:id'],
  createRecommendation: ['POST', '/api/v1/findings/:id/recommendations'],
  updateRecommendation: ['PATCH', '/api/v1/recommendations/:id'],
  listActionPlans: ['GET', '/api/v1/action-plans'],
  listActionPlansOfFinding: ['GET', '/api/v1/findings/:id/action-plans'],
  getActionPlan: ['GET', '/api/v1/action-plans/:id'],
  createActionPlan: ['POST', '/api/v1/findings/:id/action-plans'],
  updateActionPlan: ['PATCH', '/api/v1/action-plans/:id'],
  changeActionPlanStatus: ['POST', '/api/v1/action-plans/:id/status'],
  extendActionPlan: ['POST', '/api/v1/action-plans/:id/extensions'],
  bulkActionPlans: ['POST', '/api/v1/action-plans/bulk'],
  listLogOfFinding: ['GET', '/api/v1/findings/:id/log'],
  createLogEntry: ['POST', '/api/v1/findings/:id/log'],
  verifyLogOfFinding: ['GET', '/api/v1/findings/:id/log/verify'],
  listLog: ['GET', '/api/v1/remediation-log'],
  getLogCheckpoint: ['GET', '/api/v1/remediation-log/checkpoint'],
  logCheckpointKeys: ['GET', '/api/v1/remediation-log/keys'],
  exportPoam: ['GET', '/api/v1/exports/poam.json'],

  listEntities: ['GET', '/api/v1/entities'],
  getEntity: ['GET', '/api/v1/entities/:id'],
  listChildrenOfEntity: ['GET', '/api/v1/entities/:id/children'],
  listAncestorsOfEntity: ['GET', '/api/v1/entities/:id/ancestors'],
  listHierarchies: ['GET', '/api/v1/hierarchies'],
  getHierarchy: ['GET', '/api/v1/hierarchies/:key'],
  listNodes: ['GET', '/api/v1/hierarchies/:key/nodes'],
  getNode: ['GET', '/api/v1/hierarchy-nodes/:id'],
  getTree: ['GET', '/api/v1/hierarchies/:key/tree'],
  diffHierarchy: ['GET', '/api/v1/hierarchies/:key/diff'],
  listTestProcedures: ['GET', '/api/v1/test-procedures'],
  getTestProcedure: ['GET', '/api/v1/test-procedures/:id'],
  listPeople: ['GET', '/api/v1/people'],
  getPerson: ['GET', '/api/v1/people/:id'],

  uploadEvidence: ['POST', '/api/v1/evidence'],
  uploadEvidenceForm: ['POST', '/api/v1/evidence/forms'],
  reviseEvidence: ['POST', '/api/v1/evidence/:id/revisions'],
  attachEvidence: ['POST', '/api/v1/evidence/:id/attachments'],
  createUpload: ['POST', '/api/v1/evidence/uploads'],
  readUpload: ['HEAD', '/api/v1/evidence/uploads/:id'],
  appendUpload: ['PATCH', '/api/v1/evidence/uploads/:id'],
  deleteUpload: ['DELETE', '/api/v1/evidence/uploads/:id'],
  receiptKeys: ['GET', '/.well-known/jwks.json'],

  listEvidenceFiles: ['GET', '/api/v1/evidence-files'],
  getEvidenceFile: ['GET', '/api/v1/evidence-files/:id'],
  readEvidenceContent: ['GET', '/api/v1/evidence-files/:id/content'],
  listCustodyEvents: ['GET', '/api/v1/evidence-files/:id/custody'],
  releaseEvidence: ['POST', '/api/v1/evidence-files/:id/release'],
  purgeEvidence: ['POST', '/api/v1/evidence-files/:id/purge'],
  holdEvidence: ['POST', '/api/v1/evidence-files/:id/hold'],
  liftHoldOfEvidence: ['POST', '/api/v1/evidence-files/:id/lift-hold'],
  reviewEvidence: ['POST', '/api/v1/evidence-files/:id/review'],
  getEvidencePolicy: ['GET', '/api/v1/evidence-policy'],
  updateEvidencePolicy: ['PATCH', '/api/v1/evidence-policy'],

  listConnectors: ['GET', '/api/v1/connectors'],
  createConnector: ['POST', '/api/v1/connectors'],
  getConnector: ['GET', '/api/v1/connectors/:id'],
  updateConnector: ['PATCH', '/api/v1/connectors/:id'],
  deleteConnector: ['DELETE', '/api/v1/connectors/:id'],
  listMissing: ['GET', '/api/v1/connectors/:id/missing'],
  testConnector: ['POST', '/api/v1/connectors/:id/test'],
  startRun: ['POST', '/api/v1/connectors/:id/runs'],
  listRuns: ['GET', '/api/v1/sync-runs'],
  getRun: ['GET', '/api/v1/sync-runs/:id'],
  listRunChanges: ['GET', '/api/v1/sync-runs/:id/changes'],
  listRunErrors: ['GET', '/api/v1/sync-runs/:id/errors'],
  followRun: ['GET', '/api/v1/sync-runs/:id/events'],
  approveRun: ['POST', '/api/v1/sync-runs/:id/approve'],
  cancelRun: ['POST', '/api/v1/sync-runs/:id/cancel'],
  rollbackRun: ['POST', '/api/v1/sync-runs/:id/rollback'],
  pushEntities: ['POST', '/api/v1/sync/entities'],
  pushOrgStructure: ['POST', '/api/v1/sync/org-structures/:key'],
  pushTestProcedures: ['POST', '/api/v1/sync/test-procedures'],
  pushPeople: ['POST', '/api/v1/sync/people'],

  createWebhook: ['POST', '/api/v1/webhooks'],
  listWebhooks: ['GET', '/api/v1/webhooks'],
  getWebhook: ['GET', '/api/v1/webhooks/:id'],
  updateWebhook: ['PATCH', '/api/v1/webhooks/:id'],
  deleteWebhook: ['DELETE', '/api/v1/webhooks/:id'],
  rotateWebhookSecret: ['POST', '/api/v1/webhooks/:id/rotate-secret'],
  listWebhookDeliveries: ['GET', '/api/v1/webhooks/:id/deliveries'],
  sendWebhook: ['POST', '/api/v1/webhooks/:id/deliveries'],

  listAuditEvents: ['GET', '/api/v1/audit-events'],
  createApiKey: ['POST', '/api/v1/api-keys'],
  listApiKeys: ['GET', '/api/v1/api-keys'],
  getApiKey: ['GET', '/api/v1/api-keys/:id'],
  findApiKey: ['POST', '/api/v1/api-keys/find'],
  updateApiKey: ['PATCH', '/api/v1/api-keys/:id'],
  revokeApiKey: ['POST', '/api/v1/api-keys/:id/revoke'],
  rotateApiKey: ['POST', '/api/v1/api-keys/:id/rotate'],
  previewBulk: ['POST', '/api/v1/api-keys/bulk/preview'],
  changeKeys: ['POST', '/api/v1/api-keys/bulk'],
  listApiKeyEvents: ['GET', '/api/v1/api-keys/:id/events'],
  getApiKeyUsage: ['GET', '/api/v1/api-keys/:id/usage'],
  explainRequest: ['POST', '/api/v1/api-keys/:id/explain'],
  getKeyHealth: ['GET', '/api/v1/key-health'],
  reportLeakedKeys: ['POST', '/api/v1/leaked-keys'],
  getKeyPolicy: ['GET', '/api/v1/key-policy'],
  updateKeyPolicy: ['PATCH', '/api/v1/key-policy'],
  listKeyPolicyEvents: ['GET', '/api/v1/key-policy/events'],
  listMembers: ['GET', '/api/v1/members'],
} as const satisfies { readonly [N in ContractName]?: readonly [Contracts[N]['method'], Contracts[N]['path']] }

export type OperationName = keyof typeof operations

export type ContractOf<N extends OperationName> = Contracts[N]

type StatusWithBody = 200 | 201 | 202
type Schema = { readonly _zod: { readonly input: unknown; readonly output: unknown } }
type Bodies<R extends Route> = {
  [S in StatusWithBody]: R['answers'][S] extends { readonly schema: infer Z extends Schema }
    ? Z['_zod']['output']
    : never
}[StatusWithBody]

export type AnswerOf<N extends OperationName> = [Bodies<ContractOf<N>>] extends [never]
  ? undefined
  : Bodies<ContractOf<N>>

export type ItemOf<N extends OperationName> = AnswerOf<N> extends readonly (infer Item)[] ? Item : never

/** The request body of an operation. */
export type BodyOf<N extends OperationName> = ContractOf<N>['body'] extends Schema
  ? ContractOf<N>['body']['_zod']['input']
  : Exclude<ContractOf<N>['body'], undefined> extends Schema
    ? Exclude<ContractOf<N>['body'], undefined>['_zod']['input'] | undefined
    : undefined

type OneOrSeveral<V> = V extends readonly (infer E)[] ? E | readonly E[] : V

/** The query without the cursor and the form of the response. Several values of a parameter mean any of them. */
export type QueryOf<N extends OperationName> = ContractOf<N>['query'] extends Schema
  ? {
      readonly [
        P in Exclude<keyof ContractOf<N>['query']['_zod']['output'], 'cursor' | 'count' | 'format' | 'envelope'>
      ]?: OneOrSeveral<NonNullable<ContractOf<N>['query']['_zod']['output'][P]>>
    }
  : Record<string, never>
