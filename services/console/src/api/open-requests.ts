import { problem, repeatEvery } from '@postern/service-kit'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Dispatcher } from 'undici'
import type { Session } from '../session/content.ts'
import type { Sessions } from '../session/sessions.ts'
import { GatewayRequest } from './gateway-request.ts'

/** Of the connections to the gateway, which all people share. */
export const openLimits = { person: 32, tenant: 96 } as const
const checkEveryMs = 1000
/** Names the open request to `intercept`, which removes it. */
const keyHeader = 'x-open-request'

interface OpenRequest {
  readonly sessionId: string
  readonly isUse: boolean
  toGateway?: GatewayRequest
}

export interface OpenRequests {
  /**
   * Counts the request until it has ended here and at the gateway. Returns false if the client has left. Throws a problem
   * if too many are open.
   */
  enter(request: FastifyRequest, reply: FastifyReply, session: Session, isUse: boolean): boolean
  /** Headers for `intercept`. */
  headersFor(request: object): Readonly<Record<string, string>>
  /** Ends requests to the gateway whose client has left, except changes that were received completely. */
  readonly intercept: Dispatcher.DispatcherComposeInterceptor
  close(): Promise<void>
}

/** Cuts the requests of sessions that have ended, within a second. */
export function createOpenRequests(sessions: Pick<Sessions, 'find' | 'use'>): OpenRequests {
  const counts = new Map<string, number>()
  const open = new Map<FastifyReply, OpenRequest>()
  const keys = new WeakMap<object, string>()
  const byKey = new Map<string, OpenRequest>()
  let entered = 0

  function add(names: readonly string[], change: 1 | -1): void {
    for (const name of names) {
      const count = (counts.get(name) ?? 0) + change
      if (count > 0) counts.set(name, count)
      else counts.delete(name)
    }
  }

  /** A long download or upload extends its session. */
  async function isOver(sessionId: string, isUse: boolean): Promise<boolean> {
    try {
      const session = await sessions.find(sessionId)
      if (session !== undefined && isUse) await sessions.use(session)
      return session === undefined
    } catch {
      // Redis is away: the next check decides.
      return false
    }
  }

  async function check(): Promise<void> {
    for (const [sessionId, requests] of Map.groupBy(open, ([, request]) => request.sessionId)) {
      const isUse = requests.some(([, request]) => request.isUse)
      if (!(await isOver(sessionId, isUse))) continue
      for (const [reply] of requests) reply.raw.destroy()
    }
  }

  const checks = repeatEvery(checkEveryMs, check)
  return {
    enter: (request, reply, { id, content: { issuer, subject, tenant } }, isUse) => {
      // Its end has been reported already.
      if (request.raw.socket.destroyed) return false
      const names = [JSON.stringify([issuer, subject]), tenant.id]
      const [ofPerson = 0, ofTenant = 0] = names.map((name) => counts.get(name) ?? 0)
      if (ofPerson >= openLimits.person || ofTenant >= openLimits.tenant) {
        throw problem('too_many_requests', {
          detail: 'Too many requests of this person or tenant are open. Wait until some of them have ended.',
          retryAfterSeconds: 1,
        })
      }
      add(names, 1)
      const opened: OpenRequest = { sessionId: id, isUse }
      open.set(reply, opened)
      entered += 1
      const key = String(entered)
      keys.set(request, key)
      byKey.set(key, opened)
      reply.raw.once('close', () => {
        open.delete(reply)
        byKey.delete(key)
        const { toGateway } = opened
        const isChange = request.method !== 'GET' && request.method !== 'HEAD'
        if (toGateway !== undefined && !toGateway.isOver && isChange && request.raw.complete) {
          toGateway.onEnd = () => add(names, -1)
          return
        }
        add(names, -1)
        toGateway?.abort()
      })
      return true
    },
    headersFor: (request) => ({ [keyHeader]: keys.get(request) ?? '' }),
    intercept: (dispatch) => (options, handler) => {
      const { [keyHeader]: key, ...headers } = Object.fromEntries(Object.entries(options.headers ?? {}))
      const toGateway = new GatewayRequest()
      const opened = byKey.get(String(key))
      if (opened === undefined) toGateway.abort()
      else opened.toGateway = toGateway
      return dispatch({ ...options, headers }, toGateway.observe(handler))
    },
    close: async () => await checks.stop(),
  }
}
