import { hash } from 'node:crypto'
import { z } from 'zod'
import type { Seal } from '../session/seal.ts'
import { randomId } from '../session/sessions.ts'
import type { Secrets } from './provider.ts'

/** A sign-in in progress, in an encrypted cookie, so that only this browser can complete it. */
export interface Attempt extends Secrets {
  readonly issuer: string
  readonly begunAt: number
  readonly returnTo: string
}

const attemptSchema = z.object({
  state: z.string(),
  nonce: z.string(),
  codeVerifier: z.string(),
  issuer: z.string(),
  begunAt: z.number(),
  returnTo: z.string(),
})

export const attemptLifeMs = 600_000
/** With so many unfinished sign-ins, the next one clears their cookies. */
export const maxAttempts = 5

export function newAttempt(given: Pick<Attempt, 'issuer' | 'begunAt' | 'returnTo'>): Attempt {
  return { ...given, state: randomId(), nonce: randomId(), codeVerifier: randomId() }
}

/** The id in the cookie's name allows several tabs. */
export function attemptId(state: string): string {
  return hash('sha256', state, 'base64url').slice(0, 16)
}

export function sealAttempt(seal: Seal, attempt: Attempt): string {
  return seal.close(JSON.stringify(attempt), attemptId(attempt.state), '')
}

/** Returns undefined if the state differs or the sign-in is too old. */
export function openAttempt(seal: Seal, sealed: string | undefined, state: string, now: number): Attempt | undefined {
  const text = sealed === undefined ? undefined : seal.open(sealed, attemptId(state), '')
  if (text === undefined) return undefined
  const attempt = attemptSchema.parse(JSON.parse(text))
  return attempt.state === state && now - attempt.begunAt < attemptLifeMs ? attempt : undefined
}

export function safeReturnTo(given: string | undefined, origin: string): string {
  if (given === undefined || given.length > 2000 || !/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(given)) return '/'
  if (!URL.canParse(given, origin)) return '/'
  const url = new URL(given, origin)
  if (url.origin !== origin || /^\/(?:auth|api)(?:\/|$)/.test(url.pathname)) return '/'
  return url.pathname + url.search + url.hash
}
