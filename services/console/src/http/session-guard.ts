import { problem } from '@postern/service-kit'
import type { FastifyRequest } from 'fastify'
import type { Session } from '../session/content.ts'
import type { Sessions } from '../session/sessions.ts'
import { type Cookies, parseCookies } from './cookies.ts'

/** Returns the live session of a request's cookie. */
export async function findSession(
  request: FastifyRequest,
  { cookies, sessions }: { readonly cookies: Cookies; readonly sessions: Pick<Sessions, 'find'> },
): Promise<Session | undefined> {
  return await sessions.find(parseCookies(request.headers.cookie).get(cookies.session))
}

/** Returns the problem for requests without a live session. */
export function signInRequired(): Error {
  return problem('sign_in_required', {
    detail: 'There is no session, or it has ended. Sign in to the console again.',
  })
}
