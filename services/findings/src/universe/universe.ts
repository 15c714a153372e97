import {
  type AskedReferences,
  type EntityNamesAnswer,
  type LookupPeopleAnswer,
  type SubtreeBody,
  type UnknownReferences,
  entityNamesAnswerSchema,
  internalPaths,
  lookupPeopleAnswerSchema,
  subtreeAnswerSchema,
  unknownReferencesAnswerSchema,
} from '@postern/contracts/internal'
import { type RequestInfo, openPeer } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'

type Request = Pick<RequestInfo, 'context' | 'requestId'>

/** What the universe service knows of auditable entities. Each call rejects with a 503 problem when it does not answer. */
export interface Universe {
  /** Ids of the entities in a subtree; undefined where there are too many to be told. */
  subtree(request: Request, body: SubtreeBody): Promise<readonly string[] | undefined>
  /** What the entities with these ids are called, of those that there are; 1000 at most. */
  names(request: Request, ids: readonly string[]): Promise<EntityNamesAnswer['entities']>
  /** Whom e-mail addresses belong to, of those that it knows. Waits for a second at most. */
  people(request: Request, emails: readonly string[]): Promise<LookupPeopleAnswer['people']>
  /** Those of the ids that name no entity, no test procedure, or no person of the tenant's. */
  unknown(request: Request, ids: AskedReferences): Promise<UnknownReferences>
}

/** A write waits so long to learn who is named in it. */
const peopleWithinMs = 1_000

/** Speaks to the universe service. */
export function openUniverse(
  { url, ring, timeoutMs }: { readonly url: string; readonly ring: KeyRing; readonly timeoutMs: number },
  now: () => number,
): Universe {
  const { ask } = openPeer(
    {
      name: 'The universe of entities',
      by: 'findings',
      url,
      ring: { keyName: 'findings-universe', keys: ring },
      timeoutMs,
    },
    now,
  )
  return {
    subtree: async (request, body) =>
      subtreeAnswerSchema.parse(await ask(request, internalPaths.subtree, body)).entity_ids ?? undefined,
    names: async (request, ids) =>
      ids.length === 0
        ? []
        : entityNamesAnswerSchema.parse(await ask(request, internalPaths.entityNames, { ids })).entities,
    people: async (request, emails) =>
      lookupPeopleAnswerSchema.parse(await ask(request, internalPaths.lookupPeople, { emails }, peopleWithinMs)).people,
    unknown: async (request, ids) =>
      unknownReferencesAnswerSchema.parse(await ask(request, internalPaths.unknownReferences, ids)),
  }
}
