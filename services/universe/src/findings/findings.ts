import type { FindingCounts } from '@postern/contracts'
import { internalPaths, openCountsAnswerSchema } from '@postern/contracts/internal'
import { type ServiceClient, createServiceClient, serviceCaller } from '@postern/service-client'
import type { RequestInfo } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'

/** What the findings service knows of auditable entities. */
export interface Findings {
  /**
   * Returns how many findings are open about entities, by their ids; 1000 at most. An entity that is not in the answer has
   * none. Rejects with a ServiceUnavailableError if it gets no usable answer.
   */
  openCounts(
    request: Pick<RequestInfo, 'context' | 'requestId'>,
    entityIds: readonly string[],
  ): Promise<ReadonlyMap<string, FindingCounts>>
}

/** Opens a client of the findings service. */
export function openFindings({
  url,
  ring,
  timeoutMs,
}: {
  readonly url: string
  readonly ring: KeyRing
  readonly timeoutMs: number
}): Findings & Pick<ServiceClient, 'close'> {
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
