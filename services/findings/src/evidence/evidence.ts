import type { EvidenceRef } from '@postern/contracts'
import { internalPaths, unknownEvidenceAnswerSchema } from '@postern/contracts/internal'
import { type ServiceAddress, type ServiceClient, createServiceClient, serviceCaller } from '@postern/service-client'
import type { RequestInfo } from '@postern/service-kit'

export interface Evidence {
  /** Returns references without usable evidence. Rejects with a ServiceUnavailableError. */
  unknown(
    request: Pick<RequestInfo, 'context' | 'requestId'>,
    refs: readonly EvidenceRef[],
  ): Promise<readonly EvidenceRef[]>
}

export function openEvidence({ url, ring, timeoutMs }: ServiceAddress): Evidence & Pick<ServiceClient, 'close'> {
  const { ask, close } = createServiceClient({
    service: 'The evidence service',
    baseUrl: url,
    keyName: 'findings-evidence',
    ring,
    timeoutMs,
  })
  return {
    unknown: async (request, refs) => {
      const { places } = await ask(unknownEvidenceAnswerSchema, {
        ...serviceCaller('findings', request),
        target: internalPaths.unknownEvidence,
        body: { evidence_refs: refs },
      })
      const unknown = new Set(places)
      return refs.filter((_, place) => unknown.has(place))
    },
    close,
  }
}
