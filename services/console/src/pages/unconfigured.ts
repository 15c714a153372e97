import { problem } from '@postern/service-kit'
import type { FastifyInstance } from 'fastify'
import type { BuiltPages } from './assets.ts'
import { answerUnconfigured } from './message-page.ts'
import { sendAsset } from './routes.ts'

export function unconfiguredRoutes(app: FastifyInstance, pages: BuiltPages | undefined): void {
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, payload, done) => {
      payload.resume()
      done(null)
    })
    scope.all('/*', async (request, reply) => {
      const [path = '/'] = (request.raw.url ?? '/').split('?')
      const isRead = request.method === 'GET' || request.method === 'HEAD'
      const asset = isRead ? pages?.assets.get(path) : undefined
      if (asset !== undefined) return sendAsset(request, reply, asset)
      const isPage = isRead && !/^\/(?:api|assets|internal)\//.test(path) && path !== '/auth/session'
      if (isPage && /text\/html|\*\/\*/.test(request.headers.accept ?? '*/*')) return answerUnconfigured(reply)
      throw problem('sign_in_not_configured', {
        detail: 'The console has no OpenID provider. Set POSTERN_OIDC_ISSUER or POSTERN_SIGN_IN_FILE.',
      })
    })
  })
}
