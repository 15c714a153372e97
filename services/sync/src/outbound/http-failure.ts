import { errors } from 'undici'
import { SourceReadError } from '../source/source-read-error.ts'
import { tlsFailure } from './tls-failure.ts'

const unreachable: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
])
const slow: ReadonlySet<unknown> = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])
const cutOff: ReadonlySet<unknown> = new Set([
  'ECONNRESET',
  'EPIPE',
  'UND_ERR_SOCKET',
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
  'ERR_STREAM_PREMATURE_CLOSE',
  'Z_BUF_ERROR',
])
const broken: ReadonlySet<unknown> = new Set(['Z_DATA_ERROR', 'UND_ERR_HEADERS_OVERFLOW'])

/** Returns a SourceReadError that says what to fix, or the unchanged error. */
export function httpFailure(error: unknown, host: string): unknown {
  if (error instanceof SourceReadError || !(error instanceof Error)) return error
  const code = 'code' in error ? error.code : undefined
  const fail = (name: string, message: string, retryable: boolean): SourceReadError =>
    new SourceReadError(name, message, { retryable, cause: error })
  if (unreachable.has(code)) return fail('source_unreachable', `${host} cannot be reached`, true)
  if (slow.has(code)) return fail('source_too_slow', `${host} did not answer in time`, true)
  if (cutOff.has(code)) return fail('source_cut_off', `${host} closed the connection during its answer`, true)
  const insecure = tlsFailure(code, host, error)
  if (insecure !== undefined) return insecure
  if (broken.has(code) || (typeof code === 'string' && code.startsWith('HPE_'))) {
    return fail('answer_broken', `${host} sent invalid HTTP or gzip`, false)
  }
  if (error instanceof errors.HTTPParserError) {
    return fail('answer_broken', `${host} does not speak HTTP at that port: check host and port`, false)
  }
  return error
}
