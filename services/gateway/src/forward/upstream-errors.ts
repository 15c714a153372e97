import type { InputError, ProblemCode } from '@postern/contracts'

/** What a failed exchange with an upstream means to the client. */
export interface UpstreamFailure {
  readonly code: Extract<
    ProblemCode,
    'bad_gateway' | 'service_unavailable' | 'gateway_timeout' | 'content_too_large' | 'request_timeout' | 'bad_request'
  >
  readonly detail: string
  readonly errors?: readonly InputError[]
}

/** Thrown into the upload when a body grows past its limit. */
export class BodyTooLargeError extends Error {
  override readonly name = 'BodyTooLargeError'
}

/** Thrown into the upload when a body in chunks has none. */
export class EmptyBodyError extends Error {
  override readonly name = 'EmptyBodyError'
}

/** Thrown into the upload when the client sends too slowly to be served. */
export class BodyTooSlowError extends Error {
  override readonly name = 'BodyTooSlowError'
}

/** No connection to the service became free in time, or too many requests wait for one: it was never asked. */
export class NoConnectionError extends Error {
  override readonly name = 'NoConnectionError'
}

/** The service refused the gateway's own signature (a clock or a secret is wrong), which says nothing of the client. */
export class SignatureRefusedError extends Error {
  override readonly name = 'SignatureRefusedError'
}

/** Whether a body was refused for what the client did: the service is well. */
export function isFaultOfClient(error: unknown): boolean {
  return error instanceof BodyTooLargeError || error instanceof EmptyBodyError || error instanceof BodyTooSlowError
}

const unreachable: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EADDRNOTAVAIL',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_CLOSED',
  'UND_ERR_DESTROYED',
])
const notReached: UpstreamFailure = {
  code: 'service_unavailable',
  detail: 'Nothing was done. Try again in a moment.',
}
const late: ReadonlySet<string> = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])

/**
 * Maps a failure before the head of the answer: never reached, 503 (nothing was done, try again); reached and silent, 504;
 * broken off, 502. After 502 and 504 the client cannot know whether the operation happened.
 */
export function upstreamFailure(error: unknown): UpstreamFailure {
  if (error instanceof BodyTooLargeError) {
    return { code: 'content_too_large', detail: 'The body is larger than this operation takes.' }
  }
  if (error instanceof EmptyBodyError) {
    return {
      code: 'bad_request',
      detail: 'The body is empty. Send Content-Length: 0, or no body at all.',
      errors: [{ pointer: '', code: 'invalid', detail: 'is empty, though one was announced' }],
    }
  }
  if (error instanceof BodyTooSlowError) {
    return { code: 'request_timeout', detail: 'The body came in too slowly. Send it faster.' }
  }
  if (error instanceof NoConnectionError || error instanceof SignatureRefusedError) return notReached
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
  // An aggregate is what remains of a connection to a name with several addresses, none of which took it.
  if (unreachable.has(code) || error instanceof AggregateError) return notReached
  if (late.has(code)) {
    return {
      code: 'gateway_timeout',
      detail: 'The operation may or may not have happened: check before you repeat it.',
    }
  }
  return { code: 'bad_gateway', detail: 'The operation may or may not have happened: check before you repeat it.' }
}
