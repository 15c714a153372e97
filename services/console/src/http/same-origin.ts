import { createHash, timingSafeEqual } from 'node:crypto'
import { problem } from '@postern/service-kit'
import type { FastifyRequest } from 'fastify'
import type { Session } from '../session/content.ts'

const tokenHeader = 'x-csrf-token'

/** Rejects changes that are not provably of this origin (Origin, Fetch Metadata), and reads that name another one. */
export function assertSameOrigin(request: FastifyRequest, origin: string): void {
  const { origin: given, 'sec-fetch-site': site } = request.headers
  const isForeign = (given !== undefined && given !== origin) || (site !== undefined && !isOurs(site, request.method))
  const hasNoProof = given === undefined && site === undefined
  if (isForeign || (hasNoProof && isChange(request.method))) {
    throw problem('cross_site_request', { detail: 'Send this request from the pages of the console.' })
  }
}

/** Browsers send `none` for an address that the person typed. Forms and scripts cannot send it. */
function isOurs(site: string | string[], method: string): boolean {
  return site === 'same-origin' || (site === 'none' && !isChange(method))
}

/** Reads may omit the token, but a wrong one is rejected: another person may have signed in. */
export function assertCsrfToken(request: FastifyRequest, session: Session): void {
  const given = request.headers[tokenHeader]
  if (given === undefined && !isChange(request.method)) return
  if (typeof given === 'string' && isEqual(given, session.content.csrfToken)) return
  throw problem('cross_site_request', { detail: `Send the csrf_token of the session in ${tokenHeader}.` })
}

export function isChange(method: string): boolean {
  return method !== 'GET' && method !== 'HEAD'
}

function isEqual(one: string, other: string): boolean {
  return timingSafeEqual(digestOf(one), digestOf(other))
}

/** Equal lengths allow a comparison in constant time. */
function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
