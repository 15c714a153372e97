import { randomBytes } from 'node:crypto'
import { acceptsGzip } from '@postern/service-kit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'
import { pagePolicy } from '../http/security-headers.ts'
import { type UnknownRoutes, isPagePath } from '../http/unknown-routes.ts'
import type { Asset, BuiltPages } from './assets.ts'
import { answerUnbuilt } from './message-page.ts'

const forEver = 'public, max-age=31536000, immutable'

export function pageRoutes(
  app: FastifyInstance,
  {
    pages,
    unknown,
    basePath,
  }: { readonly pages: BuiltPages | undefined; readonly unknown: UnknownRoutes } & Pick<Config, 'basePath'>,
): void {
  app.get('/*', async (request, reply) => {
    const [path = '/'] = (request.raw.url ?? '/').split('?')
    const asset = pages?.assets.get(path)
    if (asset !== undefined) return sendAsset(request, reply, asset)
    if (!isPage(request, path)) throw unknown(request, reply)
    if (pages === undefined) return answerUnbuilt(reply, basePath)
    const nonce = randomBytes(16).toString('base64')
    return await reply
      .header('content-security-policy', pagePolicy(nonce))
      .type('text/html; charset=utf-8')
      .send(pages.index(nonce))
  })
}

/** Navigations have a page for every address; a missing script is a 404. */
function isPage(request: FastifyRequest, path: string): boolean {
  if (!isPagePath(path)) return false
  const { accept } = request.headers
  return accept === undefined || /text\/html|\*\/\*/.test(accept)
}

export function sendAsset(request: FastifyRequest, reply: FastifyReply, asset: Asset): FastifyReply {
  reply.type(asset.type)
  if (asset.isHashed) reply.header('cache-control', forEver)
  if (asset.gzip === undefined) return reply.send(asset.bytes)
  reply.header('vary', 'accept-encoding')
  return acceptsGzip(request.headers['accept-encoding'])
    ? reply.header('content-encoding', 'gzip').send(asset.gzip)
    : reply.send(asset.bytes)
}
