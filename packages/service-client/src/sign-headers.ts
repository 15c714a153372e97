import {
  assertionHeader,
  contextHeader,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import { type Caller, type Signer, serializeContext } from '@postern/signed-context'

/** RFC 9421. `headers` has lower-case names and is covered. */
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
    readonly target: string
    readonly caller: Caller
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
