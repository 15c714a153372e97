import type { Socket } from 'node:net'
import {
  type InputError,
  type ProblemCode,
  type Route,
  headersOnEveryAnswer,
  isScimTarget,
  missingDetail,
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
import { isAnswerUnderWay } from './bound-pipelining.ts'
import { bodyError } from './input-errors.ts'
import { runAfterPendingReads } from './late-process.ts'
import type { Logger } from './logger.ts'
import { ProblemError, problem } from './problem.ts'

const noSuchRoute = 'This service has no such route. The gateway may be of another release.'

/** With `checkAnswers`, a problem outside the contract is an internal error. */
export function answerProblems(
  app: FastifyInstance,
  logger: Logger,
  checkAnswers: boolean,
  unknown: (request: FastifyRequest, reply: FastifyReply) => ProblemError = () =>
    problem('not_found', { detail: noSuchRoute }),
): void {
  app.setNotFoundHandler(async (request, reply) => await sendProblem(request, reply, unknown(request, reply)))
  app.setErrorHandler(async (error, request, reply) => {
    const known = isBrokenOff(request, error) ? brokenOffProblem(error) : toProblem(error, request)
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

export function isBrokenOff({ raw }: FastifyRequest, error: unknown): boolean {
  return error instanceof Error && !(error instanceof ProblemError) && error === raw.errored
}

function brokenOffProblem(cause: unknown): ProblemError {
  return problem('bad_request', {
    detail: 'The body is incomplete. Send the request again.',
    errors: [bodyError('broke off')],
    cause,
  })
}

function isInContract(request: FastifyRequest, code: ProblemCode): boolean {
  const { contract } = request.routeOptions.config
  return contract === undefined || code === 'unsigned_request' || problemsOf(contract).has(code)
}

async function sendProblem(request: FastifyRequest, reply: FastifyReply, error: ProblemError): Promise<FastifyReply> {
  const { retryAfterSeconds, ...given } = error.options
  const { contract } = request.routeOptions.config
  const options =
    error.code === 'not_found' && contract !== undefined ? { detail: missingDetail(contract), ...given } : given
  if (retryAfterSeconds !== undefined) reply.header('retry-after', String(retryAfterSeconds))
  reply.removeHeader('etag').removeHeader('link')
  for (const [name, value] of headersOnEveryAnswer(contract ?? {})) reply.header(name, value)
  const isScim = isScimTarget(request.url)
  const document = isScim
    ? scimError(error.code, request.id, options)
    : problemDocument(error.code, request.id, options)
  return await reply
    .code(isScim ? scimStatusOf(error.code) : problemTypes[error.code].status)
    .header('x-request-id', request.id)
    .header('cache-control', 'no-store')
    .type(isScim ? scimMediaType : problemMediaType)
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

const fastifyErrors: Readonly<Record<string, readonly InputError[]>> = {
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    { parameter: 'Content-Length', code: 'invalid', detail: 'must be the length of the body' },
  ],
  FST_ERR_CTP_EMPTY_JSON_BODY: [bodyError('must not be empty', 'syntax')],
  FST_ERR_CTP_INVALID_JSON_BODY: [bodyError('is not valid JSON (RFC 8259)', 'syntax')],
}

function toProblem(error: unknown, { routeOptions }: FastifyRequest): ProblemError | undefined {
  if (error instanceof ProblemError) return error
  if (error instanceof ServiceUnavailableError) return unavailableProblem(error)
  if (!isFastifyError(error)) return undefined
  const code = fastifyProblems[error.code]
  if (code !== undefined)
    return problem(code, { detail: detailOf(code, routeOptions.config.contract), errors: fastifyErrors[error.code] })
  return undefined
}

function unavailableProblem({ service, cause }: ServiceUnavailableError): ProblemError {
  return problem('service_unavailable', {
    detail: `${service} is not available. Try again in a moment.`,
    retryAfterSeconds: 1,
    cause,
  })
}

function isFastifyError(error: unknown): error is FastifyError {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.startsWith('FST_')
}

function detailOf(code: ProblemCode, contract: Route | undefined): string | undefined {
  switch (code) {
    case 'unsupported_media_type':
      return describeMediaTypes(contract?.bodyMediaTypes ?? ['application/json'])
    case 'content_too_large':
      return 'The body is larger than this operation accepts.'
    default:
      return undefined
  }
}

/** Says which Content-Type a body must have. */
export function describeMediaTypes(mediaTypes: readonly string[]): string {
  return `Send the body with Content-Type: ${mediaTypes.join(' or ')}.`
}

export type ReportUnreadable = (code: ProblemCode, status: number) => void

export function answerClientError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  requestId: string,
  onAnswered?: ReportUnreadable,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const answer = () => answerUnread(error, socket, requestId, onAnswered)
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0) {
    runAfterPendingReads(() => {
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
  onAnswered: ReportUnreadable | undefined,
): void {
  // A second answer would belong to the next request.
  if (isAnswerUnderWay(socket)) {
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

const remedies: Readonly<Record<string, string>> = {
  HPE_INVALID_URL: 'Percent-encode characters of the URL that are not ASCII, as UTF-8: ü is %C3%BC.',
  HPE_INVALID_CONSTANT: 'Send METHOD URL HTTP/1.1 as the first line. Write a space in the URL as %20.',
  HPE_INVALID_VERSION: 'Send METHOD URL HTTP/1.1 as the first line, ended by CRLF.',
  HPE_INVALID_METHOD: 'Send HTTP/1.1 with the method in capitals, such as GET. This port does not accept TLS.',
  HPE_INVALID_HEADER_TOKEN:
    'Write each line of the headers as a name, a colon and a value, without control characters.',
  HPE_INVALID_CONTENT_LENGTH: 'Send Content-Length once, as a whole number, and not with Transfer-Encoding.',
  HPE_UNEXPECTED_CONTENT_LENGTH: 'Send Content-Length once, as a whole number, and not with Transfer-Encoding.',
  HPE_INVALID_TRANSFER_ENCODING: 'Send Content-Length or Transfer-Encoding: chunked, not both.',
  HPE_HEADER_OVERFLOW: 'Send shorter headers, including cookies, or a shorter URL.',
  ERR_HTTP_REQUEST_TIMEOUT: 'The head of the request arrived too slowly. Send it faster.',
}
