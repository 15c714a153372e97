import { randomBytes } from 'node:crypto'
import { assertionHeader, contextHeader, requestIdHeader } from '@postern/contracts'
import { signatureLabel } from './covered-headers.ts'
import { createMac } from './hmac.ts'
import { type KeyRing, assertKeyName } from './key-ring.ts'
import { isSignable } from './signature-base.ts'

const mandatoryNames = `("@method" "@request-target" "${contextHeader}" "${assertionHeader}" "${requestIdHeader}"`

/** What a signature covers. The optional headers must be given exactly when they are sent. */
export interface SignableRequest {
  readonly method: string
  /** Origin form, as it goes on the request line. */
  readonly target: string
  /** From serializeContext. */
  readonly context: string
  /** A tenant assertion, or `none`. */
  readonly assertion: string
  readonly requestId: string
  readonly contentType?: string | undefined
  readonly contentLength?: string | undefined
  readonly contentDigest?: string | undefined
  readonly idempotencyKey?: string | undefined
  readonly ifMatch?: string | undefined
}

/** Values of the headers `Signature-Input` and `Signature`. */
export interface RequestSignature {
  readonly signatureInput: string
  readonly signature: string
}

export interface Signer {
  /**
   * Signs one request, for one attempt to send it: the nonce makes a second use a replay. `nowMs` is the wall clock.
   * Throws UnsignableValueError when a value cannot stand in a signature.
   */
  sign(request: SignableRequest, nowMs: number): RequestSignature
}

/** A header or target holds bytes that a signature cannot cover; the message names it and never shows it. */
export class UnsignableValueError extends TypeError {
  override readonly name = 'UnsignableValueError'
  /** Name of the header, or `@method`, `@request-target`. */
  readonly component: string

  constructor(component: string) {
    super(`${component} holds characters that a signature cannot cover`)
    this.component = component
  }
}

/**
 * Gives what signs requests to one service (RFC 9421 with hmac-sha256): as `keyName` with the current key of its ring.
 *
 * HOT PATH: the base is written out by hand, one concatenation and one MAC a request. That it is the base which
 * signatureBase builds, and the verifier checks, is shown in the tests for arbitrary requests.
 */
export function createSigner(ring: KeyRing, keyName: string): Signer {
  assertKeyName(keyName)
  const mac = createMac(ring.current.secret)
  const tail = `";keyid="${keyName}:${ring.current.id}";alg="hmac-sha256"`
  // Unique without a look-up: 96 random bits for this signer in this process, and a counter.
  const noncePrefix = randomBytes(12).toString('base64url')
  let count = 0
  let second = Number.NaN
  let head = ''
  // Long, and mostly the same as in the request before: looked at once.
  let knownContext = ''
  let knownAssertion = ''

  return {
    sign(request, nowMs) {
      const now = Math.floor(nowMs / 1000)
      if (now !== second) {
        second = now
        head = `;created=${now};nonce="${noncePrefix}`
      }
      count += 1

      const { method, target, context, assertion, requestId } = request
      assertSignable('@method', method)
      assertSignable('@request-target', target)
      if (context !== knownContext) assertSignable(contextHeader, context)
      if (assertion !== knownAssertion) assertSignable(assertionHeader, assertion)
      knownContext = context
      knownAssertion = assertion
      assertSignable(requestIdHeader, requestId)
      let names = mandatoryNames
      // One template and not a function a line: V8 copies few long pieces faster than many short ones.
      let lines = `"@method": ${method}\n"@request-target": ${target}\n"${contextHeader}": ${context}\n"${assertionHeader}": ${assertion}\n"${requestIdHeader}": ${requestId}\n`
      if (request.contentType !== undefined) {
        names += ' "content-type"'
        lines += line('content-type', request.contentType)
      }
      if (request.contentLength !== undefined) {
        names += ' "content-length"'
        lines += line('content-length', request.contentLength)
      }
      if (request.contentDigest !== undefined) {
        names += ' "content-digest"'
        lines += line('content-digest', request.contentDigest)
      }
      if (request.idempotencyKey !== undefined) {
        names += ' "idempotency-key"'
        lines += line('idempotency-key', request.idempotencyKey)
      }
      if (request.ifMatch !== undefined) {
        names += ' "if-match"'
        lines += line('if-match', request.ifMatch)
      }
      const parameters = `${names})${head}${count.toString(36)}${tail}`
      return {
        signatureInput: `${signatureLabel}=${parameters}`,
        signature: `${signatureLabel}=:${mac.base64(`${lines}"@signature-params": ${parameters}`)}:`,
      }
    },
  }
}

function line(component: string, value: string): string {
  assertSignable(component, value)
  return `"${component}": ${value}\n`
}

function assertSignable(component: string, value: string): void {
  if (!isSignable(value)) throw new UnsignableValueError(component)
}
