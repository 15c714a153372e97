import { problem } from '@postern/service-kit'
import type { FastifyRequest } from 'fastify'
import type { Session } from '../session/content.ts'
import type { Sessions } from '../session/sessions.ts'
import { type Cookies, parseCookies } from './cookies.ts'

export async function findSession(
  request: FastifyRequest,
  { cookies, sessions }: { readonly cookies: Cookies; readonly sessions: Pick<Sessions, 'find'> },
): Promise<Session | undefined> {
  return await sessions.find(parseCookies(request.headers.cookie).get(cookies.session))
}

export function signInRequired(): Error {
  return problem('sign_in_required', {
    detail: 'There is no session, or it has ended. Sign in to the console again.',
  })
}
