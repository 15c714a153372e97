import type { EvidenceRef } from '@postern/contracts'
import { internalPaths, unknownEvidenceAnswerSchema } from '@postern/contracts/internal'
import { type RequestInfo, openPeer } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'

/** What the evidence service knows of files. */
export interface Evidence {
  /**
   * Those that are no evidence of the tenant's with this size and digest, or are in quarantine, rejected or purged. Rejects
   * with a 503 problem when the service does not answer.
   */
  unknown(
    request: Pick<RequestInfo, 'context' | 'requestId'>,
    refs: readonly EvidenceRef[],
  ): Promise<readonly EvidenceRef[]>
}

/** Speaks to the evidence service. */
export function openEvidence(
  { url, ring, timeoutMs }: { readonly url: string; readonly ring: KeyRing; readonly timeoutMs: number },
  now: () => number,
): Evidence {
  const { ask } = openPeer(
    {
      name: 'The evidence service',
      by: 'findings',
      url,
      ring: { keyName: 'findings-evidence', keys: ring },
      timeoutMs,
    },
    now,
  )
  return {
    unknown: async (request, refs) => {
      const answer = await ask(request, internalPaths.unknownEvidence, { evidence_refs: refs })
      const places = new Set(unknownEvidenceAnswerSchema.parse(answer).places)
      return refs.filter((_, place) => places.has(place))
    },
  }
}
