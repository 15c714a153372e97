import type { ProblemCode } from '@postern/contracts'
import { type ReadAheadBudget, tooBusy } from '@postern/service-kit'
import type { CallerHeaders } from './caller-headers.ts'
import { type Exchange, type ProblemAnswer, closeConnection, sendProblem } from './exchange.ts'
import type { PublicRequests } from './limit/public-requests.ts'

export interface Refusal {
  readonly kind: 'refusal'
  readonly code: ProblemCode
  readonly answer: ProblemAnswer
}

export function refusal(code: ProblemCode, answer: ProblemAnswer = {}): Refusal {
  return { kind: 'refusal', code, answer }
}

export function createRefuse(parts: {
  readonly callerHeaders: CallerHeaders
  readonly lookupBudget: ReadAheadBudget
  readonly isDraining: () => boolean
  readonly onRefusal: (exchange: Exchange, code: ProblemCode) => void
}): (exchange: Exchange, refused: Refusal) => void {
  const { callerHeaders, lookupBudget, isDraining, onRefusal } = parts
  return (exchange, { code, answer: { headers = [], ...answer } }) => {
    const closing = isDraining() && !headers.includes('connection') ? closeConnection : []
    lookupBudget.release(exchange.request)
    sendProblem(exchange, code, { ...answer, headers: [...callerHeaders(exchange), ...headers, ...closing] })
    onRefusal(exchange, code)
  }
}

/** Reserves until the response is closed. */
export type ReserveWait = (exchange: Exchange) => Refusal | undefined

export function createReserveWait(lookupBudget: ReadAheadBudget): ReserveWait {
  return ({ request, response }) => {
    // A closed connection emits no `close`, which releases the reservation.
    if (request.socket.destroyed) return undefined
    if (!lookupBudget.reserve(request)) return refusal('overloaded', tooBusy)
    response.once('close', () => lookupBudget.release(request))
    return undefined
  }
}

/** Counts the request. Over the limit, returns a refusal that closes the connection. */
export function countRequest(
  requests: PublicRequests,
  { address }: Exchange,
  what: string,
  cost?: number,
): Refusal | undefined {
  const waitSeconds = requests.count(address, cost)
  if (waitSeconds === 0) return undefined
  return refusal('too_many_requests', {
    detail: `Too many requests from this address ${what}.`,
    retryAfterSeconds: waitSeconds,
    headers: closeConnection,
  })
}
