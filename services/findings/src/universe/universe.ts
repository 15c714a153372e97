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
import { type ServiceClient, createServiceClient, serviceCaller } from '@postern/service-client'
import type { RequestInfo } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'

type Request = Pick<RequestInfo, 'context' | 'requestId'>

/** What the universe service knows of auditable entities. Each call rejects with a ServiceUnavailableError if it gets no usable answer. */
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

/** Opens a client of the universe service. */
export function openUniverse({
  url,
  ring,
  timeoutMs,
}: {
  readonly url: string
  readonly ring: KeyRing
  readonly timeoutMs: number
}): Universe & Pick<ServiceClient, 'close'> {
  const { ask, close } = createServiceClient({
    service: 'The universe service',
    baseUrl: url,
    keyName: 'findings-universe',
    ring,
    timeoutMs,
  })
  return {
    subtree: async (request, body) => {
      const answer = await ask(subtreeAnswerSchema, {
        ...serviceCaller('findings', request),
        target: internalPaths.subtree,
        body,
      })
      return answer.entity_ids ?? undefined
    },
    names: async (request, ids) => {
      if (ids.length === 0) return []
      const question = { ...serviceCaller('findings', request), target: internalPaths.entityNames, body: { ids } }
      return (await ask(entityNamesAnswerSchema, question)).entities
    },
    people: async (request, emails) => {
      const question = {
        ...serviceCaller('findings', request),
        target: internalPaths.lookupPeople,
        body: { emails },
        timeoutMs: peopleWithinMs,
      }
      return (await ask(lookupPeopleAnswerSchema, question)).people
    },
    unknown: async (request, ids) =>
      await ask(unknownReferencesAnswerSchema, {
        ...serviceCaller('findings', request),
        target: internalPaths.unknownReferences,
        body: ids,
      }),
    close,
  }
}
