import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Authenticate } from './authenticate/authenticate.ts'
import type { Principal } from './authenticate/principal.ts'
import type { AwaitContent } from './await-content.ts'
import type { AuthorizeRequest } from './authorize-request.ts'
import { type Exchange, isReadingStopped } from './exchange.ts'
import type { LimitRequest } from './limit-request.ts'
import type { MatchRequest } from './match-request.ts'
import type { Refusal } from './refusal.ts'

export interface Pipeline {
  readonly match: MatchRequest
  readonly authenticate: Authenticate
  readonly authorize: AuthorizeRequest
  readonly limit: LimitRequest
  /** The request no longer counts as one that waits for a look-up or tokens. */
  readonly endWait: (exchange: Exchange) => void
  readonly awaitContent: AwaitContent
  /** Forwards the request, or answers it if the route is the gateway's own. */
  readonly forward: (exchange: Exchange) => Refusal | undefined
  readonly refuse: (exchange: Exchange, refusal: Refusal) => void
  readonly onGone: (exchange: Exchange) => void
  readonly onCrash: (exchange: Exchange, error: unknown) => void
}

/**
 * Creates the handler of all requests. `isUnmet`: the request expects something else than 100-continue. HOT PATH: awaits
 * nothing if the key is in memory and tokens are left.
 */
export function createPipeline(
  steps: Pipeline,
): (request: IncomingMessage, response: ServerResponse, isUnmet?: boolean) => void {
  const { match, authenticate, authorize, limit, endWait, awaitContent, forward, refuse, onGone, onCrash } = steps

  /** Answers a caller without access. Returns whether the request continues. */
  function admit(exchange: Exchange, caller: Principal | Refusal | undefined): boolean {
    if (caller?.kind === 'refusal') return answerRefusal(exchange, caller)
    if (isGone(exchange)) {
      onGone(exchange)
      return false
    }
    return answerRefusal(exchange, authorize(exchange, caller))
  }

  /** Answers with the refusal, if there is one. Returns whether the request continues. */
  function answerRefusal(exchange: Exchange, refused: Refusal | undefined): boolean {
    if (refused !== undefined) refuse(exchange, refused)
    return refused === undefined
  }

  /** After each wait, the caller is authenticated again, because its access may have ended. */
  async function run(exchange: Exchange): Promise<void> {
    try {
      let caller = identify(exchange)
      if (!admit(exchange, caller instanceof Promise ? await caller : caller)) return

      const tokens = limit(exchange, exchange.principal)
      if (tokens !== undefined) {
        if (!answerRefusal(exchange, await tokens)) return
        caller = identify(exchange)
        if (!admit(exchange, caller instanceof Promise ? await caller : caller)) return
      }
      endWait(exchange)

      const content = awaitContent(exchange)
      if (content !== undefined) {
        if (!answerRefusal(exchange, await content)) return
        caller = identify(exchange)
        if (!admit(exchange, caller instanceof Promise ? await caller : caller)) return
        endWait(exchange)
      }
      // INVARIANT: nothing is awaited between the last `admit` and here, so that no revocation takes effect in between.
      answerRefusal(exchange, forward(exchange))
    } catch (error) {
      onCrash(exchange, error)
    }
  }

  function identify(exchange: Exchange): ReturnType<Authenticate> | undefined {
    return isPublic(exchange) ? undefined : authenticate(exchange)
  }

  return (request, response, isUnmet = false) => {
    if (isReadingStopped(request)) return
    const exchange = match(request, response, isUnmet)
    if (exchange.address === '') {
      // Without an address the request could not be audited.
      request.socket.destroy()
      onGone(exchange)
    } else if (exchange.fault !== undefined) refuse(exchange, exchange.fault)
    else void run(exchange)
  }
}

function isPublic({ route }: Exchange): boolean {
  return route !== undefined && route.access.kind === 'public'
}

function isGone({ request, response }: Exchange): boolean {
  return response.destroyed || request.socket.destroyed
}
