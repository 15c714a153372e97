import type { Role } from '@postern/contracts'
import { consolePath, publicPath } from '../base-path.ts'
import { request } from './request.ts'

/** The signed-in person as the console's server knows them. */
export interface Session {
  readonly person: { readonly id: string; readonly name: string; readonly email: string | null }
  readonly tenant: { readonly id: string; readonly name: string }
  readonly roles: readonly Role[]
  readonly csrf_token: string
  /** The gateway's URL for integrations, if the server provides it. */
  readonly api_url?: string
  readonly expires_at: string
  readonly idle_expires_at: string
}

/** Reads the session. Throws an `ApiProblem` with status 401 if nobody is signed in. */
export async function readSession(signal?: AbortSignal): Promise<Session> {
  const options = { isWithoutToken: true, ...(signal === undefined ? {} : { signal }) }
  const { body } = await request<Session>('/auth/session', options)
  return body
}

/** Ends the session. Returns the identity provider's sign-out page, or the console's own. */
export async function signOut(): Promise<string> {
  const { body } = await request<{ redirect: string }>('/auth/logout', { method: 'POST' })
  return body.redirect
}

/** Returns the sign-in URL that leads back to the current page. */
export function signInUrl(): string {
  return publicPath(`/auth/login?return_to=${encodeURIComponent(consolePath(location.pathname))}`)
}
