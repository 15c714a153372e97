import {
  type OwnerFilter,
  maxSubtreeEntities,
  ownerFilterOf,
  subtreeBodySchema,
  tooManyOwners,
} from '@postern/contracts/internal'
import { ServiceUnavailableError } from '@postern/service-client'
import { type RequestInfo, problem } from '@postern/service-kit'
import { isPersonId } from '../person.ts'
import type { Universe } from './universe.ts'

/** Returns undefined if the filter names no subtree or hierarchy. */
export async function entitiesOfFilter(
  { subtree_of, hierarchy }: { readonly subtree_of?: string | undefined; readonly hierarchy?: string | undefined },
  request: Pick<RequestInfo, 'context' | 'requestId'>,
  universe: Universe,
): Promise<readonly string[] | undefined> {
  if (subtree_of === undefined && hierarchy === undefined) return undefined
  const body = subtreeBodySchema.safeParse({
    ...(subtree_of === undefined ? {} : { subtree_of }),
    ...(hierarchy === undefined ? {} : { hierarchy }),
  })
  if (!body.success) {
    throw refusal('invalid', 'must be the address of an entity, or with `hierarchy` the address of a node')
  }
  const ids = await universe.subtree(request, body.data)
  if (ids === undefined) throw refusal('too_large', `must have at most ${maxSubtreeEntities} entities`)
  return ids
}

export async function ownersOfFilter(
  texts: readonly string[] | undefined,
  request: Pick<RequestInfo, 'context' | 'requestId' | 'log'>,
  universe: Universe,
): Promise<OwnerFilter | undefined> {
  if (texts === undefined) return undefined
  const people = await universe.identify(request, texts).catch((error: unknown) => {
    // Without an answer, an id still finds owners with that id, but not owners with only the person's address.
    if (!(error instanceof ServiceUnavailableError) || !texts.every(isPersonId)) throw error
    request.log.warn({ event: 'owner_not_identified', request_id: request.requestId, err: error })
    return []
  })
  if (people === undefined) throw problem('bad_request', { errors: [tooManyOwners] })
  return ownerFilterOf(texts, people)
}

function refusal(code: string, detail: string): Error {
  return problem('bad_request', { errors: [{ parameter: 'subtree_of', code, detail }] })
}
