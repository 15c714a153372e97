import { createHash, timingSafeEqual } from 'node:crypto'
import { problem } from '@postern/service-kit'
import type { FastifyRequest } from 'fastify'
import type { Session } from '../session/content.ts'

/** Where the CSRF token of a session is expected. */
const tokenHeader = 'x-csrf-token'

/**
 * Refuses what another site makes the browser send. A request that changes something must say where it comes from, as
 * every browser lets it (Origin, Fetch Metadata); one that reads may be silent, but may not come from elsewhere.
 */
export function assertSameOrigin(request: FastifyRequest, origin: string): void {
  const { origin: given, 'sec-fetch-site': site } = request.headers
  const isElsewhere = (given !== undefined && given !== origin) || (site !== undefined && !isOurs(site, request.method))
  const isSilent = given === undefined && site === undefined
  if (isElsewhere || (isSilent && isChange(request.method))) {
    throw problem('cross_site_request', { detail: 'Send this request from the pages of the console.' })
  }
}

/** `none`: the person has typed the address, or opened a bookmark. No form and no script can do that. */
function isOurs(site: string | string[], method: string): boolean {
  return site === 'same-origin' || (site === 'none' && !isChange(method))
}

/**
 * Refuses a change that does not show the session's CSRF token, which only our own pages can read. A read may go without, as a browser asks by
 * itself; where it shows one, it is refused with that of another session: a page of one person is told nothing of whoever has signed in since.
 */
export function assertCsrfToken(request: FastifyRequest, session: Session): void {
  const given = request.headers[tokenHeader]
  if (given === undefined && !isChange(request.method)) return
  if (typeof given === 'string' && isEqual(given, session.content.csrfToken)) return
  throw problem('cross_site_request', { detail: `Send the csrf_token of the session in ${tokenHeader}.` })
}

/** Whether a request with this method may change something. */
export function isChange(method: string): boolean {
  return method !== 'GET' && method !== 'HEAD'
}

function isEqual(one: string, other: string): boolean {
  return timingSafeEqual(digestOf(one), digestOf(other))
}

/** Of one length, whatever was given. */
function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
