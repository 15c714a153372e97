import type { FastifyInstance } from 'fastify'
import type { Config } from '../config.ts'
import type { Deps } from '../deps.ts'
import { assertSameOrigin } from '../http/same-origin.ts'
import { findSession, signInRequired } from '../http/session-guard.ts'

export interface SessionAnswer {
  readonly person: { readonly id: string; readonly name: string; readonly email: string | null }
  readonly tenant: { readonly id: string; readonly name: string }
  readonly roles: readonly string[]
  /** Whether the person can sign in to another tenant. */
  readonly can_switch: boolean
  readonly csrf_token: string
  readonly api_url: string
  readonly expires_at: string
  readonly idle_expires_at: string
}

/** Does not extend the session: an open page must not keep it alive. */
export function sessionRoutes(
  app: FastifyInstance,
  deps: Deps,
  { origin, apiUrl }: Pick<Config, 'origin' | 'apiUrl'>,
): void {
  app.get('/auth/session', async (request): Promise<SessionAnswer> => {
    assertSameOrigin(request, origin)
    const found = await findSession(request, deps)
    if (found === undefined) throw signInRequired()
    const session = deps.signIn === undefined ? found : await deps.signIn.access.confirm(found)
    if (session === undefined) throw signInRequired()
    const { person, tenant, roles, canSwitch, csrfToken, tokens } = session.content
    // Without a refresh token nothing renews the access token.
    const end = tokens.refresh === undefined ? Math.min(session.expiresAt, tokens.accessExpiresAt) : session.expiresAt
    return {
      person,
      tenant,
      roles,
      can_switch: canSwitch,
      csrf_token: csrfToken,
      api_url: apiUrl,
      expires_at: new Date(end).toISOString(),
      idle_expires_at: new Date(Math.min(session.idleExpiresAt, end)).toISOString(),
    }
  })
}
