import {
  assertionHeader,
  contextHeader,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import {
  type LookupTestProceduresAnswer,
  internalPaths,
  lookupTestProceduresAnswerSchema,
} from '@postern/contracts/internal'
import { type RequestInfo, askAgainOnce, idleConnections } from '@postern/service-kit'
import { type KeyRing, createSigner, serializeContext } from '@postern/signed-context'
import { Pool } from 'undici'

/** For each address that was asked for, the tenant's test procedure; null where there is none. */
export type FoundTestProcedures = LookupTestProceduresAnswer['test_procedures']

/** What the universe service knows of test procedures. */
export interface Universe {
  /** Rejects with a UniverseAway when it gives no answer that can be relied on. */
  lookUp(
    request: Pick<RequestInfo, 'context' | 'requestId'>,
    addresses: readonly string[],
  ): Promise<FoundTestProcedures>
  close(): Promise<void>
}

/** The universe could not say; its cause says why, for the log. */
export class UniverseAway extends Error {}

const maxConnections = 16
const maxAnswerBytes = 64 * 1024
const connectTimeoutMs = 2_000

/** Connections to the universe service, kept alive. Every request is signed anew (RFC 9421). */
export function openUniverse(
  { url, ring, timeoutMs }: { readonly url: string; readonly ring: KeyRing; readonly timeoutMs: number },
  now: () => number,
): Universe {
  const pool = new Pool(new URL(url).origin, {
    connections: maxConnections,
    pipelining: 1,
    connect: { timeout: connectTimeoutMs },
    ...idleConnections,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxResponseSize: maxAnswerBytes,
  })
  const signer = createSigner(ring, 'evidence-universe')
  return {
    lookUp: async ({ context, requestId }, addresses) => {
      const method = 'POST'
      const path = internalPaths.lookupTestProcedures
      const body = Buffer.from(JSON.stringify({ addresses }))
      const headers = signedHeaders(context, requestId, body.length)
      const signal = AbortSignal.timeout(timeoutMs)
      const ask = async (): Promise<FoundTestProcedures> => {
        const { signatureInput, signature } = signer.sign(
          {
            method,
            target: path,
            context: headers[contextHeader],
            assertion: headers[assertionHeader],
            requestId,
            contentType: headers['content-type'],
            contentLength: headers['content-length'],
          },
          now(),
        )
        const answer = await pool.request({
          method,
          path,
          headers: { ...headers, [signatureInputHeader]: signatureInput, [signatureHeader]: signature },
          body,
          signal,
        })
        const text = await answer.body.text()
        if (answer.statusCode !== 200) throw new Error(`the universe answered ${answer.statusCode} to a look-up`)
        const { test_procedures: found } = lookupTestProceduresAnswerSchema.parse(JSON.parse(text))
        if (found.length !== addresses.length) throw new Error('the universe answered for other test procedures')
        return found
      }
      try {
        return await askAgainOnce(ask)
      } catch (error) {
        throw new UniverseAway('the universe could not be asked', { cause: error })
      }
    },
    close: async () => await pool.close(),
  }
}

/** The assertion is passed on: the universe's rows open to it as they would to a request of the same tenant. */
function signedHeaders({ tenantId, assertion }: RequestInfo['context'], requestId: string, contentLength: number) {
  return {
    [contextHeader]: serializeContext({ tenantId, kind: 'service', id: 'evidence', label: '', scopes: [], roles: [] }),
    [assertionHeader]: assertion,
    [requestIdHeader]: requestId,
    'content-type': 'application/json',
    'content-length': String(contentLength),
  }
}
