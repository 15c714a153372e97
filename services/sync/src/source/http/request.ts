import { setTimeout as wait } from 'node:timers/promises'
import type { OutboundAnswer, OutboundHttp, OutboundRequest } from '../../outbound/outbound.ts'
import { SourceReadError } from '../source-read-error.ts'

const maxAttempts = 5
const maxWaitMs = 300_000

const throttled: ReadonlySet<number> = new Set([429, 503])

/** Retries as `Retry-After` says (RFC 9110, section 10.2.3). Throws a SourceReadError for any status but 200. */
export async function requestOk(http: OutboundHttp, request: OutboundRequest): Promise<OutboundAnswer> {
  const answer = await requestWithRetries(http, request)
  if (answer.status === 200) return answer
  answer.discard()
  throw statusFailure(answer)
}

export async function requestWithRetries(http: OutboundHttp, request: OutboundRequest): Promise<OutboundAnswer> {
  let waited = 0
  for (let attempt = 1; ; attempt++) {
    const answer = await http.request(request)
    if (!throttled.has(answer.status) || attempt === maxAttempts) return answer
    const delay = retryDelayMs(answer, attempt)
    waited += delay
    if (waited > maxWaitMs) return answer
    answer.discard()
    await wait(delay, undefined, { signal: request.signal })
  }
}

function retryDelayMs({ headers }: OutboundAnswer, attempt: number): number {
  const text = headers['retry-after']
  if (text !== undefined && /^\d{1,6}$/.test(text)) return Number(text) * 1000
  const date = text === undefined ? Number.NaN : Date.parse(text)
  return Number.isNaN(date) ? 2 ** (attempt - 1) * 1000 : Math.max(0, date - Date.now())
}

export function statusFailure({ status, url }: OutboundAnswer): SourceReadError {
  const { host } = new URL(url)
  const fail = (code: string, message: string, retryable = false): SourceReadError =>
    // Without an immediate retry: the wait was tried already, or it is too long.
    new SourceReadError(code, `${host} answers ${status}: ${message}`, {
      retryable,
      isThrottled: throttled.has(status),
    })
  switch (status) {
    case 401:
    case 403:
      return fail('not_authorized', 'check the credentials of the connector and what they may read')
    case 404:
    case 410:
      return fail('not_found', 'check the address of the connector')
    case 429:
      return fail('source_throttles', 'the source limits requests; run the connector later', true)
    default:
      if (status >= 500)
        return fail('source_failing', 'the source has an internal error; run the connector later', true)
      return fail('answer_refused', 'check the address and the settings of the connector')
  }
}
