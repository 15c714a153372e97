const ids: Readonly<Record<string, string>> = {
  'gateway.whoami': 'whoAmI',
  'gateway.openapi': 'getOpenApi',
  'gateway.agent-openapi': 'getAgentOpenApi',
  'gateway.reference': 'getReference',
  'gateway.problem': 'getProblem',
  'keys.create': 'createKey',
  'keys.list': 'listKeys',
  'keys.get': 'getKey',
  'keys.find': 'findKey',
  'keys.update': 'updateKey',
  'keys.revoke': 'revokeKey',
  'keys.rotate': 'rotateKey',
  'keys.events': 'listKeyEvents',
  'keys.usage': 'getKeyUsage',
  'keys.explain': 'explainRequest',
  'keys.health': 'getKeyHealth',
  'keys.report-leak': 'reportLeakedKeys',
  'keys.report-github-leak': 'reportGithubLeaks',
  'keys.policy': 'getKeyPolicy',
  'keys.change-policy': 'updateKeyPolicy',
  'keys.policy-events': 'listKeyPolicyEvents',
  'findings.list': 'listFindings',
  'findings.create': 'createFinding',
  'findings.get': 'getFinding',
  'findings.update': 'updateFinding',
  'findings.summarize': 'summarizeFindings',
  'findings.change-status': 'changeFindingStatus',
  'findings.transitions': 'getFindingTransitions',
  'findings.bulk': 'writeFindings',
  'findings.bulk-action-plans': 'writeActionPlans',
  'findings.list-log': 'listRemediationLog',
  'findings.log-checkpoint-keys': 'listLogCheckpointKeys',
  'evidence.upload': 'uploadEvidence',
  'evidence.upload-form': 'uploadEvidenceForm',
  'evidence.revise': 'reviseEvidence',
  'evidence.attach': 'attachEvidence',
  'evidence.list-files': 'listEvidenceFiles',
  'evidence.get-file': 'getEvidenceFile',
  'evidence.read-content': 'readEvidenceContent',
  'evidence.list-custody': 'listEvidenceCustody',
  'evidence.release': 'releaseEvidence',
  'evidence.purge': 'purgeEvidence',
  'evidence.hold': 'holdEvidence',
  'evidence.lift-hold': 'liftEvidenceHold',
  'evidence.review': 'reviewEvidence',
  'evidence.policy': 'getEvidencePolicy',
  'evidence.change-policy': 'updateEvidencePolicy',
  'evidence.receipt-keys': 'listReceiptKeys',
  'sync.list-missing': 'listMissingRows',
  'sync.scim-search': 'searchScim',
  'sync.scim-bulk': 'sendScimBulk',
  'sync.scim-service-config': 'getScimServiceConfig',
}

/** A verb and its object in camel case, so that it can name a function. */
export function operationIdOf(routeId: string): string {
  const [, name = ''] = routeId.split('.')
  return ids[routeId] ?? camelCase(name.replace(/^scim-([a-z]+)-/, '$1-scim-'))
}

function camelCase(name: string): string {
  return name.replaceAll(/-([a-z])/g, (_match, letter: string) => letter.toUpperCase())
}
