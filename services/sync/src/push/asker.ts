import type { ServiceRequest } from '@postern/service-client'

/** On whose behalf the universe is asked. */
export interface Asker {
  readonly tenantId: string
  /** The assertion of the request or the run. */
  readonly assertion: string
  readonly runId: string
  /** The connector that delivers the rows. Undefined if nothing is pushed. */
  readonly connectorId?: string
  /** The name of the caller, for the universe's records. */
  readonly label: string
  readonly requestId: string
}

export function callerOf({
  tenantId,
  assertion,
  runId,
  connectorId,
  label,
  requestId,
}: Asker): Pick<ServiceRequest, 'caller' | 'assertion' | 'requestId'> {
  const caller = { tenantId, kind: 'service', id: connectorId ?? runId, label, scopes: [], roles: [] } as const
  return { caller, assertion, requestId }
}
