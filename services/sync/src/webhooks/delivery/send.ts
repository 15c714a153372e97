import type { WebhookDelivery } from '@postern/contracts'
import type { Webhook } from 'standardwebhooks'
import type { Outbound, OutboundAnswer } from '../../outbound/outbound.ts'
import { SourceReadError } from '../../source/source-read-error.ts'
import type { DueDelivery } from '../rules.ts'
import { signHeaders } from '../sign.ts'

export interface SendResult {
  readonly status: number | null
  readonly durationMs: number
  /** Null if the receiver accepted the event. */
  readonly error: string | null
  readonly answer: string | null
  /** The new state of the delivery, if the result says nothing about the endpoint. */
  readonly ownState?: Exclude<WebhookDelivery['state'], 'delivered'>
}

export interface Sender {
  /** Undefined if `signal` was aborted. */
  send(delivery: DueDelivery, body: string): Promise<SendResult | undefined>
  close(): Promise<void>
}

const answerBytes = 1000
/** How long the body of a response is read. Only its start is logged. */
const answerMs = 1000

/** Sends signed requests to one endpoint. Redirects are failures. */
export function createSender(
  outbound: Outbound,
  {
    url,
    ca,
    signers,
    timeoutMs,
    signal,
  }: {
    readonly url: string
    readonly ca: string | null
    readonly signers: readonly Webhook[]
    readonly timeoutMs: number
    readonly signal: AbortSignal
  },
): Sender {
  const options = { maxBytes: Number.MAX_SAFE_INTEGER, maxSilenceMs: timeoutMs }
  const http = outbound.http(ca === null ? options : { ...options, ca })
  return {
    send: async ({ eventId: id }, body) => {
      const startedAt = performance.now()
      const timeout = AbortSignal.timeout(timeoutMs)
      const result = (status: number | null, error: string | null, answer: string | null): SendResult => ({
        status,
        durationMs: Math.round(performance.now() - startedAt),
        error,
        answer,
      })
      try {
        const headers = signHeaders(signers, { id, at: new Date(), body })
        const answer = await http.request({
          url,
          method: 'POST',
          headers,
          body,
          signal: AbortSignal.any([signal, timeout]),
        })
        const excerpt = await readExcerpt(answer)
        const isAccepted = answer.status >= 200 && answer.status < 300
        return result(answer.status, isAccepted ? null : `The receiver answered ${answer.status}.`, excerpt)
      } catch (error) {
        if (signal.aborted) return undefined
        if (timeout.aborted) return result(null, `The receiver did not answer within ${timeoutMs / 1000} s.`, null)
        return result(null, failureOf(error), null)
      }
    },
    close: async () => await http.close(),
  }
}

async function readExcerpt(answer: OutboundAnswer): Promise<string | null> {
  const parts: Uint8Array[] = []
  let bytes = 0
  const stop = setTimeout(() => answer.discard(), answerMs)
  try {
    for await (const part of answer.body) {
      parts.push(part.subarray(0, answerBytes - bytes))
      bytes += part.length
      if (bytes >= answerBytes) break
    }
  } catch {
  } finally {
    clearTimeout(stop)
  }
  const text = Buffer.concat(parts).toString('utf8').replaceAll('\0', '')
  return text === '' ? null : text
}

function failureOf(error: unknown): string {
  if (!(error instanceof SourceReadError)) return 'The request failed. Check that the receiver speaks HTTP/1.1.'
  if (error.code === 'redirect_refused') return 'The receiver redirects. Set the URL that it redirects to.'
  return `${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`
}
