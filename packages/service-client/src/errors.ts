import { UnsignableValueError } from '@postern/signed-context'

/** With these errors nothing was sent. */
const unsentCodes: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
])

const timeoutCodes: ReadonlySet<unknown> = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])

export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError'
  readonly isUnsent: boolean
  readonly isTimeout: boolean

  constructor(cause: unknown) {
    const code = codeOf(cause)
    super(`the service did not answer: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
    this.isUnsent = unsentCodes.has(code) || cause instanceof UnsignableValueError
    this.isTimeout = timeoutCodes.has(code) || (cause instanceof Error && cause.name === 'TimeoutError')
  }
}

/** The request can be repeated. */
export class ServiceUnavailableError extends Error {
  override readonly name = 'ServiceUnavailableError'
  readonly service: string

  constructor(service: string, cause: unknown) {
    super(`${service} cannot be asked now`, { cause })
    this.service = service
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
