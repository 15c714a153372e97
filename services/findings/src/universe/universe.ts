import {
  type RequestedReferences,
  type ReferenceQuery,
  type EntityNamesAnswer,
  type LookupPeopleAnswer,
  type ResolvedAddresses,
  type SubtreeBody,
  type UnknownReferences,
  type IdentifiedPerson,
  entityNamesAnswerSchema,
  identifyPeopleAnswerSchema,
  internalPaths,
  lookupPeopleAnswerSchema,
  resolveReferencesAnswerSchema,
  subtreeAnswerSchema,
  unknownReferencesAnswerSchema,
} from '@postern/contracts/internal'
import { type ServiceAddress, type ServiceClient, createServiceClient, serviceCaller } from '@postern/service-client'
import type { RequestInfo } from '@postern/service-kit'

type Request = Pick<RequestInfo, 'context' | 'requestId'>

/** Calls reject with a ServiceUnavailableError. */
export interface Universe {
  /** Undefined if there are too many entities. */
  subtree(request: Request, body: SubtreeBody): Promise<readonly string[] | undefined>
  /** Up to 1,000 entities that exist. */
  names(request: Request, ids: readonly string[]): Promise<EntityNamesAnswer['entities']>
  /** Waits at most a second. */
  people(request: Request, emails: readonly string[]): Promise<LookupPeopleAnswer['people']>
  /** Up to 1,000 ids, e-mail addresses or names. Undefined if too many people have one of them. */
  identify(request: Request, texts: readonly string[]): Promise<readonly IdentifiedPerson[] | undefined>
  /** Null for what does not exist. */
  resolve(request: Request, addresses: RequestedReferences): Promise<ResolvedAddresses>
  unknown(request: Request, ids: ReferenceQuery): Promise<UnknownReferences>
}

const peopleTimeoutMs = 1_000

export function openUniverse({ url, ring, timeoutMs }: ServiceAddress): Universe & Pick<ServiceClient, 'close'> {
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
        timeoutMs: peopleTimeoutMs,
      }
      return (await ask(lookupPeopleAnswerSchema, question)).people
    },
    identify: async (request, texts) => {
      const question = { ...serviceCaller('findings', request), target: internalPaths.identifyPeople, body: { texts } }
      return (await ask(identifyPeopleAnswerSchema, question)).people ?? undefined
    },
    resolve: async (request, addresses) =>
      await ask(resolveReferencesAnswerSchema, {
        ...serviceCaller('findings', request),
        target: internalPaths.resolveReferences,
        body: addresses,
      }),
    unknown: async (request, ids) =>
      await ask(unknownReferencesAnswerSchema, {
        ...serviceCaller('findings', request),
        target: internalPaths.unknownReferences,
        body: ids,
      }),
    close,
  }
}
