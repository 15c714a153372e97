import type { Role } from '@postern/contracts'
import { consolePath, publicPath } from '../base-path.ts'
import { request } from './request.ts'

/** Who is signed in, as the console's server knows it. */
export interface Session {
  readonly person: { readonly id: string; readonly name: string; readonly email: string | null }
  readonly tenant: { readonly id: string; readonly name: string }
  readonly roles: readonly Role[]
  readonly csrf_token: string
  /** URL of the gateway as integrations reach it; absent where the server does not tell. */
  readonly api_url?: string
  readonly expires_at: string
  readonly idle_expires_at: string
}

/** Reads the session; throws an `ApiProblem` of status 401 when nobody is signed in. */
export async function readSession(signal?: AbortSignal): Promise<Session> {
  const options = { isWithoutToken: true, ...(signal === undefined ? {} : { signal }) }
  const { body } = await request<Session>('/auth/session', options)
  return body
}

/** Ends the session. Gives the page at which the identity provider signs the person out too, or the console's own where it has none. */
export async function signOut(): Promise<string> {
  const { body } = await request<{ redirect: string }>('/auth/logout', { method: 'POST' })
  return body.redirect
}

/** Where signing in begins, and leads back to the page that is open. */
export function signInUrl(): string {
  return publicPath(`/auth/login?return_to=${encodeURIComponent(consolePath(location.pathname))}`)
}
