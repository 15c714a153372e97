import {
  assertionHeader,
  contextHeader,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import { type KeyRing, createSigner, serializeContext } from '@postern/signed-context'
import { askAgainOnce } from './connection.ts'
import type { RequestInfo } from './contract-route.ts'
import { problem } from './problem.ts'

/** Another service, which this one asks for what it owns. */
export interface Peer {
  /**
   * What the peer answers to a question for the tenant of the request, within `withinMs` milliseconds. Rejects with a 503
   * problem when it does not answer as it should. The request's assertion is passed on: the peer's rows open to it as they
   * would to a request of the same tenant.
   */
  ask(
    request: Pick<RequestInfo, 'context' | 'requestId'>,
    path: string,
    content: object,
    withinMs?: number,
  ): Promise<unknown>
}

/**
 * Speaks to another service. Every request is signed anew (RFC 9421). A question whose connection is refused or breaks off is
 * asked once more, since asking changes nothing: the peer's process may be ending, and another one answers.
 */
export function openPeer(
  {
    name,
    by,
    url,
    ring,
    timeoutMs,
  }: {
    /** Who is asked, in the words of the 503. */
    readonly name: string
    /** Which service asks. */
    readonly by: string
    readonly url: string
    /** The ring `<by>-<peer>`, which no other service has. */
    readonly ring: { readonly keyName: string; readonly keys: KeyRing }
    readonly timeoutMs: number
  },
  now: () => number,
): Peer {
  const signer = createSigner(ring.keys, ring.keyName)
  return {
    ask: async ({ context, requestId }, path, content, withinMs = timeoutMs) => {
      const method = 'POST'
      const body = Buffer.from(JSON.stringify(content))
      const { tenantId, assertion } = context
      const headers = {
        [contextHeader]: serializeContext({ tenantId, kind: 'service', id: by, label: '', scopes: [], roles: [] }),
        [assertionHeader]: assertion,
        [requestIdHeader]: requestId,
        'content-type': 'application/json',
        'content-length': String(body.length),
      }
      const signal = AbortSignal.timeout(withinMs)
      const send = async (): Promise<unknown> => {
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
        const answer = await fetch(new URL(path, url), {
          method,
          headers: { ...headers, [signatureInputHeader]: signatureInput, [signatureHeader]: signature },
          body,
          redirect: 'error',
          signal,
        })
        const text = await answer.text()
        if (answer.status !== 200) throw new Error(`${name} answered ${answer.status} to ${path}`)
        return JSON.parse(text)
      }
      try {
        return await askAgainOnce(send)
      } catch (cause) {
        throw problem('service_unavailable', {
          detail: `${name} cannot be asked now. Try again in a moment.`,
          retryAfterSeconds: 1,
          cause,
        })
      }
    },
  }
}
