import type { RequestInfo } from '@postern/service-kit'
import type { Deps } from './deps.ts'
import { createReferenceCheck } from './reference/check.ts'
import { type NamingReferences, createAddressResolver } from './reference/resolve.ts'
import { createRecorder } from './tracker-log/record.ts'
import { type NamingPeople, createPeopleLinker } from './universe/link-people.ts'

type WriteDeps = Pick<Deps, 'universe' | 'evidence' | 'checkpoints'>
type Request = Pick<RequestInfo, 'context' | 'requestId' | 'log'>

/** Asks other services about what the bodies name. Call it before the transaction, so that no lock is held meanwhile. */
export async function prepareWrites(
  deps: WriteDeps,
  request: Request,
  bodies: Parameters<typeof createReferenceCheck>[2],
) {
  const resolve = await createAddressResolver(deps.universe, request, bodies)
  const resolved = bodies.map((body) => resolve(body))
  const [linkPeople, assertKnown] = await Promise.all([
    createPeopleLinker(deps.universe, request, resolved),
    createReferenceCheck(deps, request, resolved),
  ])
  const link = <B extends NamingPeople & NamingReferences>(body: B): B => linkPeople(resolve(body))
  return { link, assertKnown, record: createRecorder(request.context, deps.checkpoints) }
}

export async function prepareWrite<Body extends NamingPeople & Parameters<typeof createReferenceCheck>[2][number]>(
  deps: WriteDeps,
  input: Request & { readonly body: Body },
) {
  const { link, ...prepared } = await prepareWrites(deps, input, [input.body])
  return { ...prepared, body: link(input.body) }
}
