import { type OwnerFilter, maxSubtreeEntities, ownerFilterOf, subtreeBodySchema } from '@postern/contracts/internal'
import { type RequestInfo, problem } from '@postern/service-kit'
import type { Universe } from './universe.ts'

/** Returns undefined if the filter selects no subtree or hierarchy. */
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
  request: Pick<RequestInfo, 'context' | 'requestId'>,
  universe: Universe,
): Promise<OwnerFilter | undefined> {
  return texts === undefined ? undefined : ownerFilterOf(texts, await universe.identify(request, texts))
}

function refusal(code: string, detail: string): Error {
  return problem('bad_request', { errors: [{ parameter: 'subtree_of', code, detail }] })
}
