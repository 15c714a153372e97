import type { Socket } from 'node:net'
import {
  type InputError,
  type ProblemCode,
  headersOnEveryAnswer,
  isScimTarget,
  problemDocument,
  problemMediaType,
  problemTypes,
  problemsOf,
  scimError,
  scimMediaType,
  scimStatusOf,
} from '@postern/contracts'
import { ServiceUnavailableError } from '@postern/service-client'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { bodyError } from './input-errors.ts'
import { onceRead } from './late-process.ts'
import type { Logger } from './logger.ts'
import { ProblemError, problem } from './problem.ts'

/** A resource that is not there is not explained; a route that the gateway knows and the service does not is. */
const noSuchRoute = 'This service has no such route. Is it of another release than the gateway?'

/**
 * The one place that writes problem documents (RFC 9457), and below `/scim/v2` errors of SCIM, to clients of a service. With `checkAnswers` a problem that the
 * contract of its route does not name becomes an internal error, so that the test that caused it fails. `unknown` says what a request is told that no route takes.
 */
export function answerProblems(
  app: FastifyInstance,
  logger: Logger,
  checkAnswers: boolean,
  unknown: (request: FastifyRequest, reply: FastifyReply) => ProblemError = () =>
    problem('not_found', { detail: noSuchRoute }),
): void {
  app.setNotFoundHandler(async (request, reply) => await sendProblem(request, reply, unknown(request, reply)))
  app.setErrorHandler(async (error, request, reply) => {
    const known = isBrokenOff(request, error) ? brokenOff(error) : toProblem(error)
    if (known !== undefined && checkAnswers && !isInContract(request, known.code)) {
      logger.error({ event: 'answer_not_in_contract', request_id: request.id, code: known.code })
      return await sendProblem(request, reply, problem('internal_error'))
    }
    if (known !== undefined) {
      if (known.cause !== undefined) {
        const level = problemTypes[known.code].status >= 500 ? 'error' : 'info'
        logger[level]({ event: 'request_failed', request_id: request.id, code: known.code, err: known.cause })
      }
      return await sendProblem(request, reply, known)
    }
    logger.error({ event: 'request_crashed', request_id: request.id, err: error })
    return await sendProblem(request, reply, problem('internal_error'))
  })
}

/**
 * Whether the error is that the client went away amid its body, which is no fault of ours. By what the request was destroyed with: a database
 * resets connections too, and whoever stops reading destroys the request as well.
 */
export function isBrokenOff({ raw }: FastifyRequest, error: unknown): boolean {
  return error instanceof Error && !(error instanceof ProblemError) && error === raw.errored
}

function brokenOff(cause: unknown): ProblemError {
  return problem('bad_request', { detail: 'The body broke off.', errors: [bodyError('broke off')], cause })
}

function isInContract(request: FastifyRequest, code: ProblemCode): boolean {
  const { contract } = request.routeOptions.config
  // Who has got past the gateway is not told by the public API what he gets.
  return contract === undefined || code === 'unsigned_request' || problemsOf(contract).has(code)
}

async function sendProblem(request: FastifyRequest, reply: FastifyReply, error: ProblemError): Promise<FastifyReply> {
  const { retryAfterSeconds, ...options } = error.options
  if (retryAfterSeconds !== undefined) reply.header('retry-after', String(retryAfterSeconds))
  // What a refused request had set belongs to an answer that is not given.
  reply.removeHeader('etag').removeHeader('link')
  for (const [name, value] of headersOnEveryAnswer(request.routeOptions.config.contract ?? {}))
    reply.header(name, value)
  const isScim = isScimTarget(request.url)
  const document = isScim
    ? scimError(error.code, request.id, options)
    : problemDocument(error.code, request.id, options)
  return await reply
    .code(isScim ? scimStatusOf(error.code) : problemTypes[error.code].status)
    .header('x-request-id', request.id)
    .header('cache-control', 'no-store')
    .type(isScim ? scimMediaType : problemMediaType)
    // As bytes: to a text fastify would add a charset, which this media type does not have.
    .send(Buffer.from(JSON.stringify(document)))
}

const fastifyProblems: Readonly<Record<string, ProblemCode>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_BODY_TOO_LARGE: 'content_too_large',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'bad_request',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'malformed_json',
  FST_ERR_CTP_INVALID_JSON_BODY: 'malformed_json',
  FST_ERR_BAD_URL: 'non_canonical_path',
  FST_ERR_ASYNC_CONSTRAINT: 'bad_request',
  FST_ERR_MAX_PARAM_LENGTH: 'uri_too_long',
}

/** Where it is, of what fastify finds wrong with what was sent. */
const placeOf: Readonly<Record<string, readonly InputError[]>> = {
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    { parameter: 'Content-Length', code: 'invalid', detail: 'must be the length of the body' },
  ],
  FST_ERR_CTP_EMPTY_JSON_BODY: [bodyError('must not be empty', 'syntax')],
  FST_ERR_CTP_INVALID_JSON_BODY: [bodyError('is not valid JSON (RFC 8259)', 'syntax')],
}

function toProblem(error: unknown): ProblemError | undefined {
  if (error instanceof ProblemError) return error
  if (error instanceof ServiceUnavailableError) return unavailable(error)
  if (!isFastifyError(error)) return undefined
  const code = fastifyProblems[error.code]
  if (code !== undefined) return problem(code, { detail: detailOf(code), errors: placeOf[error.code] })
  return undefined
}

function unavailable({ service, cause }: ServiceUnavailableError): ProblemError {
  return problem('service_unavailable', {
    detail: `${service} cannot be asked now. Try again in a moment.`,
    retryAfterSeconds: 1,
    cause,
  })
}

function isFastifyError(error: unknown): error is FastifyError {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.startsWith('FST_')
}

function detailOf(code: ProblemCode): string | undefined {
  switch (code) {
    case 'unsupported_media_type':
      return 'Send a Content-Type that this operation takes; most take application/json.'
    case 'content_too_large':
      return 'The body is larger than this operation takes.'
    default:
      return undefined
  }
}

/** Told of an answer to bytes that never became a request. */
export type OnUnreadable = (code: ProblemCode, status: number) => void

/**
 * Answers a client whose bytes are not HTTP, or too slow, and closes the connection: Node has no request to give us. `onAnswered` hears of it,
 * but for who has sent nothing at all.
 */
export function answerClientError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  requestId: string,
  onAnswered?: OnUnreadable,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const answer = () => answerUnread(error, socket, requestId, onAnswered)
  // Until now nothing had come, for want of which the time for a head is over: where it was we who were late, it comes now.
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0) {
    onceRead(() => {
      if (socket.bytesRead === 0 && socket.writable) answer()
    })
    return
  }
  answer()
}

function answerUnread(
  error: NodeJS.ErrnoException,
  socket: Socket,
  requestId: string,
  onAnswered: OnUnreadable | undefined,
): void {
  // The head was understood and is being answered: a second answer to one request would be taken for that of the next.
  if (hasAnswerUnderWay(socket)) {
    socket.destroySoon()
    return
  }
  const code = clientErrors[error.code ?? ''] ?? 'malformed_http'
  const { status } = problemTypes[code]
  const body = JSON.stringify(problemDocument(code, requestId, { detail: remedies[error.code ?? ''] }))
  if (socket.bytesRead > 0) onAnswered?.(code, status)
  socket.end(
    `HTTP/1.1 ${status} ${code}\r\ncontent-type: ${problemMediaType}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n` +
      `x-request-id: ${requestId}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n${body}`,
  )
}

const clientErrors: Readonly<Record<string, ProblemCode>> = {
  HPE_HEADER_OVERFLOW: 'header_fields_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** What is mostly wrong where Node's parser stops, by its code. */
const remedies: Readonly<Record<string, string>> = {
  HPE_INVALID_URL: 'Percent-encode what is not ASCII in the URL, as UTF-8: ü is %C3%BC.',
  HPE_INVALID_CONSTANT: 'Send METHOD URL HTTP/1.1 as the first line, with a space in the URL as %20.',
  HPE_INVALID_VERSION: 'Send METHOD URL HTTP/1.1 as the first line, ended by CRLF.',
  HPE_INVALID_METHOD: 'Send plain HTTP/1.1 with the method in capitals, as GET. This is no port for TLS.',
  HPE_INVALID_HEADER_TOKEN: 'A line of the headers is no name, colon and value, or holds a control character.',
  HPE_INVALID_CONTENT_LENGTH: 'Send Content-Length once, as a whole number, and not beside Transfer-Encoding.',
  HPE_UNEXPECTED_CONTENT_LENGTH: 'Send Content-Length once, as a whole number, and not beside Transfer-Encoding.',
  HPE_INVALID_TRANSFER_ENCODING: 'Send Content-Length or Transfer-Encoding: chunked, and not both.',
  HPE_HEADER_OVERFLOW: 'Send shorter headers, cookies among them, or a shorter URL.',
  ERR_HTTP_REQUEST_TIMEOUT: 'The head of the request came in too slowly. Send it faster.',
}

/** Looks where Node's own default handler looks. */
function hasAnswerUnderWay(socket: Socket): boolean {
  if (!('_httpMessage' in socket)) return false
  const { _httpMessage: message } = socket
  return typeof message === 'object' && message !== null && 'headersSent' in message && message.headersSent === true
}
