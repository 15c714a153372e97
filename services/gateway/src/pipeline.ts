import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Authenticate } from './authenticate/authenticate.ts'
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
  readonly awaitContent: AwaitContent
  /** Forwards the request, or answers it if the route is the gateway's own. */
  readonly forward: (exchange: Exchange) => void
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
  const { match, authenticate, authorize, limit, awaitContent, forward, refuse, onGone, onCrash } = steps

  async function run(exchange: Exchange): Promise<void> {
    try {
      // Starts again after each wait, because the caller may have lost its access meanwhile.
      for (;;) {
        const known = isPublic(exchange) ? undefined : authenticate(exchange)
        const caller = known instanceof Promise ? await known : known
        // INVARIANT: nothing is awaited from here to `forward`, so that no revocation takes effect in between.
        if (caller?.kind === 'refusal') return refuse(exchange, caller)
        if (isGone(exchange)) return onGone(exchange)
        const denial = authorize(exchange, caller)
        if (denial !== undefined) return refuse(exchange, denial)
        const wait = limit(exchange, caller) ?? awaitContent(exchange)
        if (wait === undefined) return forward(exchange)
        const refused = await wait
        if (refused !== undefined) return refuse(exchange, refused)
      }
    } catch (error) {
      onCrash(exchange, error)
    }
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
