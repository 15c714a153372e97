import type { InputError, ProblemCode } from '@postern/contracts'

export interface UpstreamFailure {
  readonly code: Extract<
    ProblemCode,
    'bad_gateway' | 'service_unavailable' | 'gateway_timeout' | 'content_too_large' | 'request_timeout' | 'bad_request'
  >
  readonly detail: string
  readonly errors?: readonly InputError[]
}

export class BodyTooLargeError extends Error {
  override readonly name = 'BodyTooLargeError'
}

/** A chunked body without content. */
export class EmptyBodyError extends Error {
  override readonly name = 'EmptyBodyError'
}

/** The client sends too slowly. */
export class BodyTooSlowError extends Error {
  override readonly name = 'BodyTooSlowError'
}

/** The client does not read its answer. */
export class ClientStalledError extends Error {
  override readonly name = 'ClientStalledError'
}

/** The service did not receive the request. */
export class NoConnectionError extends Error {
  override readonly name = 'NoConnectionError'
}

/** A clock or secret is wrong. */
export class SignatureRefusedError extends Error {
  override readonly name = 'SignatureRefusedError'
}

const faultsOfClient = [BodyTooLargeError, EmptyBodyError, BodyTooSlowError, ClientStalledError] as const

export function isFaultOfClient(error: unknown): boolean {
  return faultsOfClient.some((fault) => error instanceof fault)
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
  detail: 'The request had no effect. Try again in a moment.',
}
const late: ReadonlySet<string> = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])

/** 503 if the service was not reached, 504 if it was silent, 502 if the exchange broke off. */
export function upstreamFailure(error: unknown): UpstreamFailure {
  if (error instanceof BodyTooLargeError) {
    return { code: 'content_too_large', detail: 'The body is larger than this operation accepts.' }
  }
  if (error instanceof EmptyBodyError) {
    return {
      code: 'bad_request',
      detail: 'The body is empty. Send Content-Length: 0, or no body at all.',
      errors: [{ pointer: '', code: 'invalid', detail: 'is empty although a body was announced' }],
    }
  }
  if (error instanceof BodyTooSlowError) {
    return { code: 'request_timeout', detail: 'The body arrived too slowly. Send it faster.' }
  }
  if (error instanceof NoConnectionError || error instanceof SignatureRefusedError) return notReached
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
  // Several addresses of a name failed.
  if (unreachable.has(code) || error instanceof AggregateError) return notReached
  if (late.has(code)) {
    return {
      code: 'gateway_timeout',
      detail: 'The operation may or may not have happened: check before you repeat it.',
    }
  }
  return { code: 'bad_gateway', detail: 'The operation may or may not have happened: check before you repeat it.' }
}
