import type { FindingCounts } from '@postern/contracts'
import { internalPaths, openCountsAnswerSchema } from '@postern/contracts/internal'
import { type ServiceAddress, type ServiceClient, createServiceClient, serviceCaller } from '@postern/service-client'
import type { RequestInfo } from '@postern/service-kit'

export interface Findings {
  /** At most 1,000 entities. Those without open findings are missing. Rejects with ServiceUnavailableError. */
  openCounts(
    request: Pick<RequestInfo, 'context' | 'requestId'>,
    entityIds: readonly string[],
  ): Promise<ReadonlyMap<string, FindingCounts>>
}

export function openFindings({ url, ring, timeoutMs }: ServiceAddress): Findings & Pick<ServiceClient, 'close'> {
  const { ask, close } = createServiceClient({
    service: 'The findings service',
    baseUrl: url,
    keyName: 'universe-findings',
    ring,
    timeoutMs,
  })
  return {
    openCounts: async (request, entityIds) => {
      if (entityIds.length === 0) return new Map()
      const { counts } = await ask(openCountsAnswerSchema, {
        ...serviceCaller('universe', request),
        target: internalPaths.openCounts,
        body: { entity_ids: entityIds },
      })
      return new Map(counts.map(({ entity_id: id, ...of }) => [id, of]))
    },
    close,
  }
}
