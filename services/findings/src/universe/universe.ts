import {
  assertionHeader,
  contextHeader,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import {
  type EntityNamesAnswer,
  type LookupPeopleAnswer,
  type SubtreeBody,
  entityNamesAnswerSchema,
  internalPaths,
  lookupPeopleAnswerSchema,
  subtreeAnswerSchema,
} from '@postern/contracts/internal'
import { type RequestInfo, problem } from '@postern/service-kit'
import { type KeyRing, createSigner, serializeContext } from '@postern/signed-context'

type Request = Pick<RequestInfo, 'context' | 'requestId'>

/** What the universe service knows of auditable entities. Each call rejects with a 503 problem when it does not answer. */
export interface Universe {
  /** Ids of the entities in a subtree; undefined where there are too many to be told. */
  subtree(request: Request, body: SubtreeBody): Promise<readonly string[] | undefined>
  /** What the entities with these ids are called, of those that there are; 50 at most. */
  names(request: Request, ids: readonly string[]): Promise<EntityNamesAnswer['entities']>
  /** Whom e-mail addresses belong to, of those that it knows. Waits for a second at most. */
  people(request: Request, emails: readonly string[]): Promise<LookupPeopleAnswer['people']>
}

/** A write waits so long to learn who is named in it. */
const peopleWithinMs = 1_000

/** Speaks to the universe service. Every request is signed anew (RFC 9421) and sent once: no retries. */
export function openUniverse(
  { url, ring, timeoutMs }: { readonly url: string; readonly ring: KeyRing; readonly timeoutMs: number },
  now: () => number,
): Universe {
  const signer = createSigner(ring, 'findings-universe')
  const ask = async (
    { context, requestId }: Request,
    path: string,
    content: object,
    withinMs = timeoutMs,
  ): Promise<unknown> => {
    const method = 'POST'
    const body = Buffer.from(JSON.stringify(content))
    const { tenantId, assertion } = context
    const headers = {
      [contextHeader]: serializeContext({
        tenantId,
        kind: 'service',
        id: 'findings',
        label: '',
        scopes: [],
        roles: [],
      }),
      // Passed on: the universe's rows open to it as they would to a request of the same tenant.
      [assertionHeader]: assertion,
      [requestIdHeader]: requestId,
      'content-type': 'application/json',
      'content-length': String(body.length),
    }
    const { signatureInput, signature } = signer.sign(
      {
        method,
        target: path,
        context: headers[contextHeader],
        assertion,
        requestId,
        contentType: headers['content-type'],
        contentLength: headers['content-length'],
      },
      now(),
    )
    try {
      const answer = await fetch(new URL(path, url), {
        method,
        headers: { ...headers, [signatureInputHeader]: signatureInput, [signatureHeader]: signature },
        body,
        redirect: 'error',
        signal: AbortSignal.timeout(withinMs),
      })
      const text = await answer.text()
      if (answer.status !== 200) throw new Error(`the universe answered ${answer.status} to ${path}`)
      return JSON.parse(text)
    } catch (cause) {
      throw problem('service_unavailable', {
        detail: 'The universe of entities cannot be asked now. Try again in a moment.',
        retryAfterSeconds: 1,
        cause,
      })
    }
  }
  return {
    subtree: async (request, body) =>
      subtreeAnswerSchema.parse(await ask(request, internalPaths.subtree, body)).entity_ids ?? undefined,
    names: async (request, ids) =>
      ids.length === 0
        ? []
        : entityNamesAnswerSchema.parse(await ask(request, internalPaths.entityNames, { ids })).entities,
    people: async (request, emails) =>
      lookupPeopleAnswerSchema.parse(await ask(request, internalPaths.lookupPeople, { emails }, peopleWithinMs)).people,
  }
}
