import { type ProblemError, problem } from '@postern/service-kit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { BuiltPages } from '../pages/assets.ts'

/** What a request is told that no route takes: 405 and the methods that there are (RFC 9110 §15.5.6), or that nothing is there. */
export type UnknownRoutes = (request: FastifyRequest, reply: FastifyReply) => ProblemError

/** Navigations have a page for every address but these. */
export function isPagePath(path: string): boolean {
  return !/^\/(?:api|auth|assets|internal)(?:\/|$)/.test(path)
}

/** To be made before the routes, of which it learns as they are. */
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
      return problem('not_found', { detail: 'The console has nothing at this address.' })
    }
    reply.header('allow', allowed.join(', '))
    return problem('method_not_allowed', { detail: `This address supports ${allowed.join(', ')}.` })
  }
}
