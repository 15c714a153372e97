import { randomBytes } from 'node:crypto'
import { assertionHeader, contextHeader, requestIdHeader } from '@postern/contracts'
import { signatureLabel } from './covered-headers.ts'
import { createMac } from './hmac.ts'
import { type KeyRing, assertKeyName } from './key-ring.ts'
import { isSignable } from './signature-base.ts'

const mandatoryNames = `("@method" "@request-target" "${contextHeader}" "${assertionHeader}" "${requestIdHeader}"`

/** Set an optional header exactly if you send it. */
export interface SignableRequest {
  readonly method: string
  readonly target: string
  readonly context: string
  readonly assertion: string
  readonly requestId: string
  readonly contentType?: string | undefined
  readonly contentLength?: string | undefined
  readonly contentDigest?: string | undefined
  readonly idempotencyKey?: string | undefined
  readonly ifMatch?: string | undefined
}

export interface RequestSignature {
  readonly signatureInput: string
  readonly signature: string
}

export interface Signer {
  /**
   * Signs one attempt: sending the signature twice is a replay. `nowMs` is the wall clock. Throws UnsignableValueError.
   */
  sign(request: SignableRequest, nowMs: number): RequestSignature
}

/** The message names the header or target, never its value. */
export class UnsignableValueError extends TypeError {
  override readonly name = 'UnsignableValueError'
  /** A header, `@method` or `@request-target`. */
  readonly component: string

  constructor(component: string) {
    super(`${component} holds characters that a signature cannot cover`)
    this.component = component
  }
}

/**
 * Creates a signer for one service (RFC 9421, hmac-sha256) with the current key of its ring.
 *
 * HOT PATH: builds the signature base inline. The tests show that it equals `signatureBase` for any request.
 */
export function createSigner(ring: KeyRing, keyName: string): Signer {
  assertKeyName(keyName)
  const mac = createMac(ring.current.secret)
  const tail = `";keyid="${keyName}:${ring.current.id}";alg="hmac-sha256"`
  // Random bits and a counter make a nonce unique without a look-up.
  const noncePrefix = randomBytes(12).toString('base64url')
  let count = 0
  let second = Number.NaN
  let head = ''
  // Often equal to the previous request's, so they are checked once.
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
      // Faster in V8 than many short concatenations.
      let lines = `"@method": ${method}\n"@request-target": ${target}\n"${contextHeader}": ${context}\n"${assertionHeader}": ${assertion}\n"${requestIdHeader}": ${requestId}\n`
      if (request.contentType !== undefined) {
        names += ' "content-type"'
        lines += formatLine('content-type', request.contentType)
      }
      if (request.contentLength !== undefined) {
        names += ' "content-length"'
        lines += formatLine('content-length', request.contentLength)
      }
      if (request.contentDigest !== undefined) {
        names += ' "content-digest"'
        lines += formatLine('content-digest', request.contentDigest)
      }
      if (request.idempotencyKey !== undefined) {
        names += ' "idempotency-key"'
        lines += formatLine('idempotency-key', request.idempotencyKey)
      }
      if (request.ifMatch !== undefined) {
        names += ' "if-match"'
        lines += formatLine('if-match', request.ifMatch)
      }
      const parameters = `${names})${head}${count.toString(36)}${tail}`
      return {
        signatureInput: `${signatureLabel}=${parameters}`,
        signature: `${signatureLabel}=:${mac.base64(`${lines}"@signature-params": ${parameters}`)}:`,
      }
    },
  }
}

function formatLine(component: string, value: string): string {
  assertSignable(component, value)
  return `"${component}": ${value}\n`
}

function assertSignable(component: string, value: string): void {
  if (!isSignable(value)) throw new UnsignableValueError(component)
}
