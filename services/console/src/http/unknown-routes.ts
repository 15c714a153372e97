import { type ProblemError, problem } from '@postern/service-kit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { BuiltPages } from '../pages/assets.ts'

/** 405 with the allowed methods (RFC 9110 §15.5.6) or 404. */
export type UnknownRoutes = (request: FastifyRequest, reply: FastifyReply) => ProblemError

export function isPagePath(path: string): boolean {
  return !/^\/(?:api|auth|assets|internal)(?:\/|$)/.test(path)
}

/** Call it before registering routes, because it observes them. */
export function unknownRoutes(app: FastifyInstance, pages: BuiltPages | undefined): UnknownRoutes {
  const methods = new Map<string, string[]>()
  app.addHook('onRoute', ({ url, method }) => {
    methods.set(url, [...(methods.get(url) ?? []), method].flat())
  })

  function methodsOf(path: string): readonly string[] {
    const ofRoute = methods.get(path) ?? (path.startsWith('/api/v1/') ? methods.get('/api/v1/*') : undefined)
    if (ofRoute !== undefined) return [...new Set(ofRoute)]
    return isPagePath(path) || pages?.assets.has(path) === true ? ['GET', 'HEAD'] : []
  }

  return (request, reply) => {
    const [path = '/'] = (request.raw.url ?? '/').split('?')
    const allowed = methodsOf(path)
    if (allowed.length === 0 || allowed.includes(request.method)) {
      return problem('not_found', { detail: 'This address does not exist. Check its spelling.' })
    }
    reply.header('allow', allowed.join(', '))
    return problem('method_not_allowed', { detail: `This address supports ${allowed.join(', ')}.` })
  }
}
