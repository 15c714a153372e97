import type { ServiceRequest } from '@postern/service-client'
import type { RequestInfo } from '@postern/service-kit'

export interface ImportCaller {
  readonly tenantId: string
  readonly assertion: string
  readonly runId: string
  readonly connectorId?: string
  readonly label: string
  readonly requestId: string
}

/** `runId`: also the id of a request that concerns no run. */
export function importCallerOf(
  {
    context,
    requestId,
  }: {
    readonly context: Pick<RequestInfo['context'], 'tenantId' | 'assertion' | 'label'>
    readonly requestId: string
  },
  runId: string,
  connectorId?: string,
): ImportCaller {
  const { tenantId, assertion, label } = context
  return { tenantId, assertion, runId, ...(connectorId === undefined ? {} : { connectorId }), label, requestId }
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
