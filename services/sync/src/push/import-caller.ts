import type { ServiceRequest } from '@postern/service-client'

export interface ImportCaller {
  readonly tenantId: string
  readonly assertion: string
  readonly runId: string
  readonly connectorId?: string
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
}: ImportCaller): Pick<ServiceRequest, 'caller' | 'assertion' | 'requestId'> {
  const caller = { tenantId, kind: 'service', id: connectorId ?? runId, label, scopes: [], roles: [] } as const
  return { caller, assertion, requestId }
}
