import type { FindingCounts } from '@postern/contracts'
import { internalPaths, openCountsAnswerSchema } from '@postern/contracts/internal'
import { type RequestInfo, openPeer } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'

/** What the findings service knows of auditable entities. */
export interface Findings {
  /**
   * How many findings are open about entities, by their ids; 1000 at most. One that is not in the answer has none. Rejects
   * with a 503 problem when the findings service does not answer.
   */
  openCounts(
    request: Pick<RequestInfo, 'context' | 'requestId'>,
    entityIds: readonly string[],
  ): Promise<ReadonlyMap<string, FindingCounts>>
}

/** Speaks to the findings service. */
export function openFindings(
  { url, ring, timeoutMs }: { readonly url: string; readonly ring: KeyRing; readonly timeoutMs: number },
  now: () => number,
): Findings {
  const { ask } = openPeer(
    {
      name: 'The findings service',
      by: 'universe',
      url,
      ring: { keyName: 'universe-findings', keys: ring },
      timeoutMs,
    },
    now,
  )
  return {
    openCounts: async (request, entityIds) => {
      if (entityIds.length === 0) return new Map()
      const answer = await ask(request, internalPaths.openCounts, { entity_ids: entityIds })
      const { counts } = openCountsAnswerSchema.parse(answer)
      return new Map(counts.map(({ entity_id: id, ...of }) => [id, of]))
    },
  }
}
