import type { Role } from '@postern/contracts'
import { consolePath, publicPath } from '../base-path.ts'
import { request } from './request.ts'

export interface Session {
  readonly person: { readonly id: string; readonly name: string; readonly email: string | null }
  readonly tenant: { readonly id: string; readonly name: string }
  readonly roles: readonly Role[]
  /** Whether the person can sign in to another tenant. */
  readonly can_switch?: boolean
  readonly csrf_token: string
  readonly api_url?: string
  readonly expires_at: string
  readonly idle_expires_at: string
}

/** Throws an `ApiProblem` with status 401 if nobody is signed in. */
export async function readSession(signal?: AbortSignal): Promise<Session> {
  const options = { isWithoutToken: true, ...(signal === undefined ? {} : { signal }) }
  const { body } = await request<Session>('/auth/session', options)
  return body
}

export async function signOut(): Promise<string> {
  const { body } = await request<{ redirect: string }>('/auth/logout', { method: 'POST' })
  return body.redirect
}

/** A new sign-in, where people choose another tenant. It leads to `/`, because this page belongs to this tenant. */
export function switchUrl(): string {
  return publicPath('/auth/login?return_to=%2F')
}

export function signInUrl(): string {
  return publicPath(`/auth/login?return_to=${encodeURIComponent(consolePath(location.pathname))}`)
}
