import {
  assertionHeader,
  contextHeader,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import { type Caller, type Signer, serializeContext } from '@postern/signed-context'

/** Returns the headers of one attempt to send a request, signed (RFC 9421). `headers` has lower-case names and is covered. */
export function signHeaders(
  signer: Signer,
  {
    method,
    target,
    caller,
    assertion,
    requestId,
    headers = {},
  }: {
    readonly method: string
    /** In origin form, as on the request line. */
    readonly target: string
    readonly caller: Caller
    /** A tenant assertion, or `none`. */
    readonly assertion: string
    readonly requestId: string
    readonly headers?: Readonly<Record<string, string>>
  },
  nowMs: number,
): Record<string, string> {
  const context = serializeContext(caller)
  const { signatureInput, signature } = signer.sign(
    {
      method,
      target,
      context,
      assertion,
      requestId,
      contentType: headers['content-type'],
      contentLength: headers['content-length'],
      contentDigest: headers['content-digest'],
      idempotencyKey: headers['idempotency-key'],
      ifMatch: headers['if-match'],
    },
    nowMs,
  )
  return {
    ...headers,
    [contextHeader]: context,
    [assertionHeader]: assertion,
    [requestIdHeader]: requestId,
    [signatureInputHeader]: signatureInput,
    [signatureHeader]: signature,
  }
}
