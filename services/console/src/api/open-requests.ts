import { problem, repeatEvery } from '@postern/service-kit'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Session } from '../session/content.ts'
import type { Sessions } from '../session/sessions.ts'

/** Of the connections to the gateway, which all people share. */
export const openLimits = { person: 32, tenant: 96 } as const
const checkEveryMs = 1000

export interface OpenRequests {
  /** Counts the request until its answer has ended. Throws a problem if too many are open. */
  enter(request: FastifyRequest, reply: FastifyReply, session: Session, isUse: boolean): void
  close(): Promise<void>
}

/** Cuts the requests of sessions that have ended, within a second. */
export function createOpenRequests(sessions: Pick<Sessions, 'find' | 'use'>): OpenRequests {
  const counts = new Map<string, number>()
  const open = new Map<FastifyReply, { readonly sessionId: string; readonly isUse: boolean }>()

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
      if (request.raw.socket.destroyed) return
      const names = [JSON.stringify([issuer, subject]), tenant.id]
      const [ofPerson = 0, ofTenant = 0] = names.map((name) => counts.get(name) ?? 0)
      if (ofPerson >= openLimits.person || ofTenant >= openLimits.tenant) {
        throw problem('too_many_requests', {
          detail: 'Too many requests of this person or tenant are open. Wait until some of them have ended.',
          retryAfterSeconds: 1,
        })
      }
      add(names, 1)
      open.set(reply, { sessionId: id, isUse })
      reply.raw.once('close', () => {
        add(names, -1)
        open.delete(reply)
      })
    },
    close: async () => await checks.stop(),
  }
}
